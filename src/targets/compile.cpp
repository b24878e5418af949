// SPDX-License-Identifier: MIT
#include "targets/compile.h"

#include "passes/lower_composites.h"
#include "plan/planning_threads.h"
#include "targets/pipeline.h"

namespace lathe {

std::vector<PassRecord> run_pipeline(Program& program, const CompileOptions& options, Stage last) {
  if (last <= program.stage) return {};
  const auto target = options.target != nullptr ? options.target : find_target("ref");
  PassOptions passes = options.passes;
  if (!passes.stop_after || *passes.stop_after > last) passes.stop_after = last;
  return run_passes(program, make_pipeline(target, options.compute), passes);
}

std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program,
                                    const CompileOptions& options) {
  CompileOptions used = options;
  if (used.target == nullptr) used.target = find_target("ref");
  std::unique_ptr<const Program> source = program->clone();
  run_pipeline(*program, used);
  // A lowered program may have been lowered for a target with other kernels.
  lower_composites([&](const Instruction& i) { return used.target->expands(i); }).run(*program);
  const PlanningThreads threads(used.pool);
  std::shared_ptr<Plan> plan =
      make_plan(std::move(program), [&used](const Instruction& instruction, Constants constants) {
        KernelChoice choice = used.target->select(instruction, constants);
        return used.watch_kernels ? used.watch_kernels(instruction, std::move(choice))
                                  : std::move(choice);
      });
  plan->source = std::move(source);
  plan->target = std::string(used.target->name());
  // Programs compiled at run time are neither traced nor watched.
  used.pool = nullptr;
  used.passes = PassOptions{.verify_each_pass = used.passes.verify_each_pass};
  plan->compile = [used](std::unique_ptr<Program> other) {
    return lathe::compile(std::move(other), used);
  };
  plan->make_queue = [target = used.target] { return target->make_queue(); };
  return plan;
}

std::shared_ptr<const Plan> compile_as_written(std::unique_ptr<Program> program) {
  const std::shared_ptr<const Target> ref = find_target("ref");
  std::unique_ptr<const Program> source = program->clone();
  lower_composites([](const Instruction&) { return true; }).run(*program);
  std::shared_ptr<Plan> plan =
      make_plan(std::move(program), [ref](const Instruction& instruction, Constants constants) {
        return ref->select(instruction, constants);
      });
  plan->source = std::move(source);
  plan->target = std::string(ref->name());
  plan->compile = compile_as_written;
  plan->make_queue = [ref] { return ref->make_queue(); };
  return plan;
}

}  // namespace lathe

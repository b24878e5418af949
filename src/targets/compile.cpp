// SPDX-License-Identifier: MIT
#include "targets/compile.h"

#include "passes/fold_constants.h"
#include "passes/lower_composites.h"

namespace lathe {

void run_pipeline(Program& program, const CompileOptions& options, Stage last) {
  const auto target = options.target != nullptr ? options.target : find_target("ref");
  if (last >= Stage::canonical && program.stage < Stage::canonical) {
    fold_constants(program);
    program.stage = Stage::canonical;
  }
  if (last >= Stage::lowered && program.stage < Stage::lowered) {
    lower_composites(program, [&](const Instruction& i) { return target->expands(i); });
    fold_constants(program);
    program.stage = Stage::lowered;
  }
}

std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program,
                                    const CompileOptions& options) {
  CompileOptions used = options;
  if (used.target == nullptr) used.target = find_target("ref");
  std::unique_ptr<const Program> source = program->clone();
  run_pipeline(*program, used);
  std::shared_ptr<Plan> plan =
      make_plan(std::move(program), [target = used.target](const Instruction& instruction) {
        return target->select(instruction);
      });
  plan->source = std::move(source);
  plan->target = std::string(used.target->name());
  plan->compile = [used](std::unique_ptr<Program> other) {
    return lathe::compile(std::move(other), used);
  };
  plan->make_queue = [target = used.target] { return target->make_queue(); };
  return plan;
}

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "targets/compile.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/os_system.h"
#include "base/thread_pool.h"
#include "ir/compiled_source.h"
#include "passes/lower_composites.h"
#include "plan/packing_source.h"
#include "plan/planning_threads.h"
#include "targets/pack_weights.h"
#include "targets/pipeline.h"
#include "tensor/mapped.h"

namespace lathe {

std::vector<PassRecord> run_pipeline(Program& program, const CompileOptions& options, Stage last) {
  if (last <= program.stage) return {};
  const auto target = options.target != nullptr ? options.target : find_target("ref");
  PassOptions passes = options.passes;
  if (!passes.stop_after || *passes.stop_after > last) passes.stop_after = last;
  return run_passes(
      program, make_pipeline(target, options.compute, options.boundary, options.tuning), passes);
}

namespace {

// Kernels of a placed program: of the chosen target, or of the one that the instruction names.
class PlacedKernels final : public KernelSource, public PackingSource {
 public:
  explicit PlacedKernels(const CompileOptions& options) : options_(options) {}

  KernelChoice select(const Instruction& instruction, Constants constants) const override {
    const Target& chosen = *options_.target;
    KernelChoice choice;
    if (instruction.target().empty()) {
      choice = chosen.select(instruction, constants);
    } else {
      choice = find_target(instruction.target())->select(instruction, constants);
      if (choice.reason.empty()) choice.reason = chosen.supports(instruction);
    }
    return options_.watch_kernels ? options_.watch_kernels(instruction, std::move(choice))
                                  : std::move(choice);
  }
  bool packs(const Instruction& instruction, int operand) const override {
    const auto target =
        instruction.target().empty() ? options_.target : find_target(instruction.target());
    const auto* packing = dynamic_cast<const PackingSource*>(target.get());
    return packing != nullptr && packing->packs(instruction, operand);
  }
  bool packs_source(const Instruction& instruction, int operand) const override {
    if (options_.watch_kernels) return false;  // they may read all operands
    const auto target =
        instruction.target().empty() ? options_.target : find_target(instruction.target());
    const auto* packing = dynamic_cast<const PackingSource*>(target.get());
    return packing != nullptr && packing->packs_source(instruction, operand);
  }
  std::string machine() const override { return machine_of(*options_.target); }
  std::unique_ptr<const Kernel> dims_kernel(std::vector<DimId> dims) const override {
    return options_.target->dims_kernel(std::move(dims));
  }
  std::unique_ptr<const Kernel> copy_kernel() const override {
    return options_.target->copy_kernel();
  }
  const Device* device() const override { return options_.target->device(); }

 private:
  const CompileOptions& options_;
};

// Releases the pages of files that planning read: kernels keep their own form of most constants.
void release_read(const Program& source, const Plan& plan) {
  std::set<const void*> used;
  for (const Tensor& literal : plan.literals) used.insert(literal.data());
  for (const auto& module : source.modules()) {
    for (const auto& instruction : module->instructions()) {
      const LiteralRef& literal = instruction->literal();
      if (literal != nullptr && !used.contains(literal->tensor.data())) {
        release_mapped(literal->tensor);
      }
    }
  }
}

// A program of a compiled file as it is if it was lowered for these options, else the portable one.
std::unique_ptr<Program> for_options(std::unique_ptr<Program> program,
                                     const CompileOptions& options) {
  const CompiledSource* file = lowered_source(*program);
  if (file == nullptr) return program;
  const std::string target(options.target->name());
  const std::string machine = machine_of(*options.target);
  check(options.compute == Compute::as_model || to_string(options.compute) == file->compute(),
        ErrorKind::unsupported,
        "'{}' was compiled with --compute {}, requested is {}: compile the model again",
        escape(file->file()), file->compute(), to_string(options.compute));
  const bool fits = options.boundary == Boundary::device || options.target->device() == nullptr ||
                    !has_device_boundary(*program);
  if (file->target() == target && file->machine() == machine) {
    return fits ? std::move(program) : file->portable();
  }
  const auto text = [](const std::string& name, const std::string& with) {
    return with.empty() ? name : fmt::format("{} with {}", name, with);
  };
  log_warning(fmt::format(
      "'{}' was compiled for {}: lowering it for {} and packing its weights again",
      escape(file->file()), text(file->target(), file->machine()), text(target, machine)));
  return file->portable();
}

// The choices in the program's file, if they were measured on this processor with as many threads.
std::shared_ptr<Tuning> tuning_of_file(const Program& program, const CompileOptions& options) {
  const CompiledSource* file = compiled_source(program);
  if (file == nullptr || file->tuned().empty()) return nullptr;
  std::shared_ptr<Tuning> tuning = read_tuning(file->tuned(), file->file());
  const std::string processor = tuned_processor(*options.target);
  const int threads = options.pool == nullptr ? 1 : options.pool->threads();
  if (tuning->processor() == processor && tuning->threads() == threads) return tuning;
  log_line(1, fmt::format("the choices in '{}' are for {} with {} threads, not for {} with {}",
                          escape(file->file()), escape(tuning->processor()), tuning->threads(),
                          processor, threads));
  return nullptr;
}

}  // namespace

std::string tuned_processor(const KernelSource& source) {
  return fmt::format("{}, {}", system_info().processor, machine_of(source));
}

std::string machine_of(const KernelSource& source) {
  const auto* packing = dynamic_cast<const PackingSource*>(&source);
  return packing == nullptr ? "" : packing->machine();
}

namespace {

int64_t literal_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const LiteralRef& literal = instruction->literal();
      if (literal != nullptr) bytes += literal->tensor.byte_size();
    }
  }
  return bytes;
}

std::shared_ptr<const Plan> compile_with(std::unique_ptr<Program> program,
                                         const CompileOptions& options, Boundary boundary) {
  CompileOptions used = options;
  used.boundary = boundary;
  if (used.target == nullptr) used.target = find_target("ref");
  if (used.tuning == nullptr) used.tuning = tuning_of_file(*program, used);
  program = for_options(std::move(program), used);
  if (const Device* device = used.target->device()) device->expect_upload(literal_bytes(*program));
  std::unique_ptr<const Program> source = program->clone();
  run_pipeline(*program, used);
  GivenPackings given;
  take_packings(*program, given);
  // A lowered program may have been lowered for a target with other kernels.
  lower_composites([&](const Instruction& i) { return used.target->expands(i); }).run(*program);
  place_for(used.target, used.boundary).run(*program);
  const PlanningThreads threads(used.pool);
  const TuningScope tuning(used.tuning);
  std::shared_ptr<Plan> plan = make_plan(std::move(program), PlacedKernels(used));
  release_read(*source, *plan);
  plan->source = std::move(source);
  plan->target = std::string(used.target->name());
  // Programs compiled at run time are neither traced nor watched.
  used.pool = nullptr;
  used.passes = PassOptions{.verify_each_pass = used.passes.verify_each_pass};
  plan->compile = [used](std::unique_ptr<Program> other) {
    // One instruction, between values of the executor: its results have no names.
    const bool part = std::ranges::all_of(other->main().result_names(), &std::string::empty);
    return compile_with(std::move(other), used, part ? Boundary::host : used.boundary);
  };
  return plan;
}

}  // namespace

std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program,
                                    const CompileOptions& options) {
  return compile_with(std::move(program), options, options.boundary);
}

std::shared_ptr<const Plan> compile_as_written(std::unique_ptr<Program> program) {
  const std::shared_ptr<const Target> ref = find_target("ref");
  std::unique_ptr<const Program> source = program->clone();
  lower_composites([](const Instruction&) { return true; }).run(*program);
  place_for(ref).run(*program);
  std::shared_ptr<Plan> plan = make_plan(std::move(program), *ref);
  plan->source = std::move(source);
  plan->target = std::string(ref->name());
  plan->compile = compile_as_written;
  return plan;
}

}  // namespace lathe

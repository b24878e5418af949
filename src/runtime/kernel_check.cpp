// SPDX-License-Identifier: MIT
#include "runtime/kernel_check.h"

#include "ir/ops.h"
#include "runtime/difference.h"
#include "runtime/lockstep.h"

namespace lathe {
namespace {

Tensor as_tensor(const TensorView& view) {
  const auto strides = std::span(view.strides).first(static_cast<size_t>(view.rank));
  if (view.count() == 0)
    return Tensor(view.type, Dims(view.extents().begin(), view.extents().end()));
  return Tensor(view.type, Dims(view.extents().begin(), view.extents().end()),
                Dims(strides.begin(), strides.end()), view.data, nullptr);
}

// A correct kernel may sum in another order. Integers that it rounds may differ by one step.
Tolerance tolerance_of(const Instruction& instruction, double tolerance) {
  constexpr double kWeightOnly = 1e-5;     // integer accumulation is exact
  constexpr double kBf16Step = 1.0 / 256;  // of a value between 1 and 2, halved
  Tolerance out{.relative = tolerance, .steps = quantises_at_run_time(instruction) ? 1 : 0};
  if (instruction.op() == ops::matmul_n_bits &&
      instruction.result()->type().element == ElementType::f32) {
    out.relative = kWeightOnly;
  }
  // The kernel rounds probabilities before they are normalised, the reference after it.
  if (instruction.op() == ops::attention) {
    const Attribute* compute = find_attribute(instruction.attributes(), "compute_type");
    if (compute != nullptr && std::get<std::string>(*compute) == "bf16") {
      out.relative = std::max(out.relative, kBf16Step);
    }
  }
  return out;
}

}  // namespace

class KernelCheck::Checked final : public Kernel {
 public:
  Checked(KernelCheck& check, std::unique_ptr<const Kernel> kernel, const Instruction& instruction)
      : check_(check), kernel_(std::move(kernel)), instruction_(instruction) {}
  std::string_view name() const override { return kernel_->name(); }
  std::string detail() const override { return kernel_->detail(); }
  bool uses_workspace() const override { return kernel_->uses_workspace(); }
  bool may_overwrite(int operand) const override { return kernel_->may_overwrite(operand); }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return kernel_->workspace_bytes(most);
  }

  // Runs the reference first: a kernel may overwrite an operand.
  void launch(const LaunchArgs& args) const override {
    std::vector<Box> operands;
    for (size_t i = 0; i < args.in.size(); ++i) {
      const bool plain = args.has(i) && instruction_.operands()[i]->type().is_ranked();
      operands.push_back(!args.has(i) ? Box{}
                         : plain      ? Box{as_tensor(*args.in[i])}
                                      : args.host->box(static_cast<int>(i)));
    }
    const std::vector<Box> expected = evaluate_instruction(instruction_, operands, args.pool);
    kernel_->launch(args);
    const Tolerance tolerance = tolerance_of(instruction_, check_.tolerance_);
    for (size_t i = 0; i < expected.size(); ++i) {
      // A kernel may leave unused results unwritten.
      const Value& result = *instruction_.result(static_cast<int>(i));
      if (result.uses().empty()) continue;
      if (!expected[i].is_tensor() || !result.type().is_ranked()) continue;
      const Box actual{as_tensor(*args.out[i])};
      const Difference found = compare_values(actual, expected[i], tolerance);
      check_.record(*kernel_, instruction_, found.error, found.limit, found.text);
    }
  }

 private:
  KernelCheck& check_;
  std::unique_ptr<const Kernel> kernel_;
  const Instruction& instruction_;
};

std::shared_ptr<const Plan> KernelCheck::compile(std::unique_ptr<Program> program,
                                                 CompileOptions options) {
  watch(options);
  return lathe::compile(std::move(program), options);
}

void KernelCheck::watch(CompileOptions& options) {
  if (options.target != nullptr && options.target->device() != nullptr) {
    fail(ErrorKind::unsupported,
         "kernels of target '{}' cannot be compared: their operands lie on a device",
         options.target->name());
  }
  options.watch_kernels = [this](const Instruction& instruction, KernelChoice choice) {
    if (choice.kernel == nullptr || choice.kernel->name().starts_with("ref.") ||
        choice.kernel->name().starts_with("host.")) {
      return choice;
    }
    {
      const std::lock_guard lock(mutex_);
      KernelReport& report = found_[std::string(choice.kernel->name())];
      report.kernel = choice.kernel->name();
      ++report.instructions;
    }
    choice.kernel = std::make_unique<Checked>(*this, std::move(choice.kernel), instruction);
    return choice;
  };
}

void KernelCheck::record(const Kernel& kernel, const Instruction& instruction, double error,
                         double limit, const std::string& problem) {
  const std::lock_guard lock(mutex_);
  KernelReport& report = found_[std::string(kernel.name())];
  ++report.launches;
  const bool worse =
      problem.empty() ? report.problem.empty() && error >= report.error : report.problem.empty();
  if (!worse) return;
  report.error = error;
  report.limit = limit;
  report.worst_at = instruction.result()->name();
  report.problem = problem;
}

std::vector<KernelReport> KernelCheck::reports() const {
  const std::lock_guard lock(mutex_);
  std::vector<KernelReport> all;
  for (const auto& [name, report] : found_) all.push_back(report);
  return all;
}

}  // namespace lathe

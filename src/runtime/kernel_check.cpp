// SPDX-License-Identifier: MIT
#include "runtime/kernel_check.h"

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

// Permitted difference of a correct kernel: another summation order, and one step if it rounds to
// integers.
Tolerance tolerance_of(const Instruction& instruction, double tolerance) {
  constexpr double kWeightOnly = 1e-5;  // integer accumulation is exact
  Tolerance out{.relative = tolerance, .steps = quantises_at_run_time(instruction) ? 1 : 0};
  if (instruction.op().name == "matmul_n_bits" &&
      instruction.result()->type().element == ElementType::f32) {
    out.relative = kWeightOnly;
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

  // Runs the reference first: a kernel may overwrite an operand.
  void launch(Evaluation& c) const override {
    std::vector<Box> operands;
    for (int i = 0; i < c.count(); ++i) {
      const bool plain =
          c.has(i) && instruction_.operands()[static_cast<size_t>(i)]->type().is_ranked();
      operands.push_back(!c.has(i) ? Box{} : plain ? Box{as_tensor(c.in(i))} : c.box(i));
    }
    const std::vector<Box> expected = evaluate_instruction(instruction_, operands, c.pool);
    kernel_->launch(c);
    const Tolerance tolerance = tolerance_of(instruction_, check_.tolerance_);
    for (size_t i = 0; i < expected.size(); ++i) {
      // A kernel may leave unused results unwritten.
      if (instruction_.result(static_cast<int>(i))->uses().empty()) continue;
      if (!expected[i].is_tensor() ||
          !c.instruction().result(static_cast<int>(i))->type().is_ranked()) {
        continue;
      }
      const Box actual{as_tensor(c.out(static_cast<int>(i)))};
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
  options.watch_kernels = [this](const Instruction& instruction, KernelChoice choice) {
    if (choice.kernel == nullptr || choice.kernel->name().starts_with("ref.")) return choice;
    {
      const std::lock_guard lock(mutex_);
      KernelReport& report = found_[std::string(choice.kernel->name())];
      report.kernel = choice.kernel->name();
      ++report.instructions;
    }
    choice.kernel = std::make_unique<Checked>(*this, std::move(choice.kernel), instruction);
    return choice;
  };
  return lathe::compile(std::move(program), options);
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

// SPDX-License-Identifier: MIT
#include "runtime/kernel_check.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/ops.h"
#include "plan/device.h"
#include "runtime/difference.h"
#include "runtime/lockstep.h"
#include "runtime/nudged.h"

namespace lathe {
namespace {

Tensor as_tensor(const TensorView& view) {
  const auto strides = std::span(view.strides).first(static_cast<size_t>(view.rank));
  if (view.count() == 0)
    return Tensor(view.type, Dims(view.extents().begin(), view.extents().end()));
  return Tensor(view.type, Dims(view.extents().begin(), view.extents().end()),
                Dims(strides.begin(), strides.end()), view.data, nullptr);
}

// A copy in the host's memory of what a stream has written so far.
Tensor fetched(const TensorView& view, Stream& stream) {
  const Dims dims(view.extents().begin(), view.extents().end());
  if (view.count() == 0) return Tensor(view.type, dims);
  int64_t before = 0, behind = 1;  // elements that the strides reach
  for (int axis = 0; axis < view.rank; ++axis) {
    const int64_t reach = (view.dims[axis] - 1) * view.strides[axis];
    (reach < 0 ? before : behind) += reach;
  }
  const int64_t skipped = before * info(view.type).bits / 8;
  Tensor memory(ElementType::u8, {bytes_for(view.type, behind - before)});
  stream.copy(memory.data(), static_cast<const std::byte*>(view.data) + skipped,
              static_cast<size_t>(memory.count()));
  stream.synchronize();
  const auto strides = std::span(view.strides).first(static_cast<size_t>(view.rank));
  return Tensor(view.type, dims, Dims(strides.begin(), strides.end()),
                memory.as<std::byte>() - skipped, std::make_shared<Tensor>(memory));
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
  if (is_any_of(instruction.op(), {&ops::attention, &ops::packed_attention})) {
    const Attribute* compute = find_attribute(instruction.attributes(), "compute_type");
    if (compute != nullptr && std::get<std::string>(*compute) == "bf16") {
      out.relative = std::max(out.relative, kBf16Step);
    }
  }
  return out;
}

// Widens `errors` to those of the reference on nudged operands.
void add_nudged(const Instruction& instruction, const std::vector<Box>& operands,
                const std::vector<Box>& expected, uint64_t seed, ThreadPool* pool,
                std::vector<double>& errors) {
  std::vector<Box> moved;
  for (const Box& operand : operands) {
    const uint64_t own = seed + 2 * moved.size();
    moved.push_back(operand.is_tensor() ? Box{nudged(operand.tensor(), own)} : operand);
  }
  const std::vector<Box> results = evaluate_instruction(instruction, moved, pool);
  for (size_t i = 0; i < errors.size(); ++i) {
    if (!results[i].is_tensor() || !is_floating(results[i].tensor().type())) continue;
    const double error = kOrders * compare_values(results[i], expected[i]).error;
    if (std::isfinite(error)) errors[i] = std::max(errors[i], error);
  }
}

// The largest error of each result that rounding alone explains: those of sums that cancel are
// large. None of an instruction that jumps.
std::vector<double> errors_of_rounding(const Instruction& instruction,
                                       const std::vector<Box>& operands,
                                       const std::vector<Box>& expected, ThreadPool* pool) {
  std::vector<double> errors(expected.size());
  if (jumps(instruction)) return errors;
  try {
    for (const uint64_t seed : {1, 2}) {
      add_nudged(instruction, operands, expected, seed, pool, errors);
    }
  } catch (const Error&) {
    errors.assign(expected.size(), 0);  // a size depends on the nudged operands
  }
  return errors;
}

}  // namespace

class KernelCheck::Checked final : public Kernel {
 public:
  Checked(KernelCheck& check, std::unique_ptr<const Kernel> kernel, const Instruction& instruction)
      : check_(check), kernel_(std::move(kernel)), instruction_(instruction) {}
  std::string_view name() const override { return kernel_->name(); }
  std::string detail() const override { return kernel_->detail(); }
  bool uses_workspace() const override { return kernel_->uses_workspace(); }
  void expect(const LaunchArgs& args) const override { kernel_->expect(args); }
  bool may_overwrite(int operand) const override { return kernel_->may_overwrite(operand); }
  bool writes(int result) const override { return kernel_->writes(result); }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    return kernel_->workspace_bytes(most);
  }

  // Runs the reference first: a kernel may overwrite an operand.
  void launch(const LaunchArgs& args) const override {
    std::vector<Box> operands;
    for (size_t i = 0; i < args.in.size(); ++i) {
      const bool plain = args.has(i) && instruction_.operands()[i]->type().is_ranked();
      operands.push_back(!args.has(i) ? Box{}
                         : plain      ? Box{content(*args.in[i], args)}
                                      : args.host->box(static_cast<int>(i)));
      if (plain && kernel_->may_overwrite(static_cast<int>(i))) {
        operands.back() = Box{operands.back().tensor().clone()};
      }
    }
    const std::vector<Box> expected = evaluate_instruction(instruction_, operands, args.pool);
    kernel_->launch(args);
    const Tolerance tolerance = tolerance_of(instruction_, check_.tolerance_);
    std::vector<double> roundings;
    for (size_t i = 0; i < expected.size(); ++i) {
      // A kernel may leave unused results unwritten.
      const Value& result = *instruction_.result(static_cast<int>(i));
      if (result.uses().empty()) continue;
      if (!expected[i].is_tensor() || !result.type().is_ranked()) continue;
      const Box actual{content(*args.out[i], args)};
      Difference found = compare_values(actual, expected[i], tolerance);
      if (!found.equal() && tolerance.relative == 0) {
        if (roundings.empty()) {
          roundings = errors_of_rounding(instruction_, operands, expected, args.pool);
        }
        if (roundings[i] > found.limit) {
          found = compare_values(actual, expected[i], {.relative = roundings[i]});
        }
      }
      check_.record(*kernel_, instruction_, found.error, found.limit, found.text);
    }
  }

 private:
  static Tensor content(const TensorView& view, const LaunchArgs& args) {
    return args.stream == nullptr ? as_tensor(view) : fetched(view, *args.stream);
  }

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
  options.watch_kernels = [this, inner = std::move(options.watch_kernels)](
                              const Instruction& instruction, KernelChoice choice) {
    if (inner) choice = inner(instruction, std::move(choice));
    // Updates of states have no evaluation of their own.
    if (choice.kernel == nullptr || instruction.op().structural != Structural::none ||
        choice.kernel->name().starts_with("ref.") || choice.kernel->name().starts_with("host.")) {
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

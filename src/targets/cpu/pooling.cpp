// SPDX-License-Identifier: MIT
// max_pool, average_pool and their global variants.
#include "targets/cpu/kernels/pool/pooling.h"

#include "ir/ops.h"
#include "ops/support/window.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr int kMaxAxes = 3;

bool is_global(const Instruction& instruction) {
  return is_any_of(instruction.op(), {&ops::global_average_pool, &ops::global_max_pool});
}
bool is_average(const Instruction& instruction) {
  return is_any_of(instruction.op(), {&ops::average_pool, &ops::global_average_pool});
}

// Without the axes.
PoolingProblem problem_of(const Instruction& instruction) {
  PoolingProblem p;
  p.average = is_average(instruction);
  p.element = element_of(instruction, 0);
  p.count_include_pad = attribute<bool>(instruction, "count_include_pad");
  p.needs_indices = instruction.results().size() > 1 && !instruction.result(1)->uses().empty();
  return p;
}

class PoolingKernel final : public Kernel {
 public:
  PoolingKernel(const Instruction& instruction, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        problem_(problem_of(instruction)),
        is_global_(is_global(instruction)) {
    if (is_global_) return;
    const InstructionReader c(instruction);
    kernel_ = c.integers("kernel_shape");
    window_ = WindowAttributes(c, kernel_.size());
  }
  std::string_view name() const override { return name_; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  bool uses_workspace() const override { return true; }
  int64_t workspace_bytes(const LaunchArgs& most) const override {
    ScratchLayout workspace;
    if (!is_channels_last(*most.in[0])) {
      reserve_copy(most.in[0], workspace);
      reserve_copy(most.out[0], workspace);
      return workspace.bytes();
    }
    if (!writes_in_place(*most.out[0])) {
      workspace.take<std::byte>(bytes_for(most.out[0]->type, most.out[0]->count()));
    }
    return workspace.bytes();
  }

  void launch(const LaunchArgs& args) const override {
    if (args.out[0]->count() == 0) return;
    ScratchLayout workspace = workspace_of(args);
    if (is_channels_last(*args.in[0])) return launch_channels_last(args, workspace);
    const TensorView x = dense_operand(*args.in[0], workspace);
    const DenseResult result(*args.out[0], workspace);
    const TensorView& y = result.view();
    const auto plane = [](const TensorView& view) {
      return view.count() / std::max<int64_t>(1, view.dims[0] * view.dims[1]);
    };
    const PoolingTensor from{x.data, x.dims[1] * plane(x), plane(x)};
    const PoolingTensor to{y.data, y.dims[1] * plane(y), plane(y)};
    Pooling(problem_for(x, y), isa_).run(from, to, x.dims[0], args.pool);
    result.finish();
  }

 private:
  // True if channels-last results may be written to the view: in that order, or without positions.
  static bool writes_in_place(const TensorView& y) {
    return is_channels_last(y) || (y.is_dense() && y.count() == y.dims[0] * y.dims[1]);
  }

  void launch_channels_last(const LaunchArgs& args, ScratchLayout& workspace) const {
    const TensorView &x = *args.in[0], &out = *args.out[0];
    const bool direct = writes_in_place(out);
    const TensorView y = channels_last_view(
        out, direct ? out.data : workspace.take<std::byte>(bytes_for(out.type, out.count())));
    PoolingProblem problem = problem_for(x, y);
    problem.channels_last = true;
    const PoolingTensor from{x.data, x.count() / x.dims[0], x.dims[1]};
    const PoolingTensor to{y.data, y.count() / y.dims[0], y.dims[1]};
    Pooling(problem, isa_).run(from, to, x.dims[0], args.pool);
    if (!direct) copy_elements(y, out);
  }

  PoolingProblem problem_for(const TensorView& x, const TensorView& y) const {
    PoolingProblem problem = problem_;
    problem.channels = x.dims[1];
    const size_t spatial = static_cast<size_t>(x.rank) - 2;
    const size_t first = kMaxAxes - spatial;
    if (is_global_) {
      for (size_t i = 0; i < spatial; ++i) {
        problem.axes[first + i].input = problem.axes[first + i].kernel = x.dims[i + 2];
      }
      return problem;
    }
    std::array<WindowAxis, kMaxAxes> axes;
    window_axes(window_, x, y, kernel_, axes);
    for (size_t i = 0; i < spatial; ++i) {
      const WindowAxis& a = axes[i];
      problem.axes[first + i] = {a.input,    a.output,    a.kernel, a.stride,
                                 a.dilation, a.pad_begin, a.pad_end};
    }
    return problem;
  }

  std::string name_;
  Isa isa_;
  PoolingProblem problem_;
  bool is_global_;
  Integers kernel_;
  WindowAttributes window_;
};

std::string why_not(const Instruction& instruction, Isa /*isa*/) {
  const int rank = instruction.operands()[0]->type().rank();
  if (rank < 3 || rank > kMaxAxes + 2) {
    return fmt::format("{} spatial axes, supported: 1 to {}", rank - 2, kMaxAxes);
  }
  return Pooling::refuse(problem_of(instruction));
}

KernelChoice make(const Instruction& instruction, Constants /*constants*/, Isa isa) {
  return {std::make_unique<PoolingKernel>(instruction, isa), ""};
}

}  // namespace

const KernelEntry kAveragePool{ops::average_pool, why_not, make};
const KernelEntry kGlobalAveragePool{ops::global_average_pool, why_not, make};
const KernelEntry kGlobalMaxPool{ops::global_max_pool, why_not, make};
const KernelEntry kMaxPool{ops::max_pool, why_not, make};

}  // namespace lathe::cpu

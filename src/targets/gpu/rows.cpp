// SPDX-License-Identifier: MIT
// Reductions and softmax.
#include <algorithm>
#include <bit>

#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/support/reduction.h"
#include "targets/gpu/expression.h"
#include "targets/gpu/kernel.h"

namespace lathe::gpu {
namespace {

constexpr size_t kAxes = 16;

// Axes with the strides of several views.
template <size_t kViews>
struct Axes {
  size_t rank = 0;
  std::array<int64_t, kAxes> sizes{};
  std::array<std::array<int64_t, kAxes>, kViews> strides{};
  void add(int64_t size, const std::array<int64_t, kViews>& own) {
    if (size == 1) return;
    sizes[rank] = size;
    for (size_t i = 0; i < kViews; ++i) strides[i][rank] = own[i];
    ++rank;
  }
  int64_t count() const {
    int64_t product = 1;
    for (size_t i = 0; i < rank; ++i) product *= sizes[i];
    return product;
  }
};

uint32_t threads_for(int64_t columns) {
  constexpr int64_t kLeast = 32;
  const auto wanted = static_cast<uint64_t>(std::clamp<int64_t>(columns, kLeast, kThreads));
  return static_cast<uint32_t>(std::bit_floor(wanted));
}

// A device function of the arguments a and b, both of type A.
std::string device_function(std::string_view name, const Expr& value) {
  const std::string names[] = {"a", "b"};
  return fmt::format("DEVICE A {}(A a, A b) {{\n{}  return r;\n}}\n", name,
                     print_expression(value, names, "r"));
}

// The reduced axes, ascending; nullopt if they are not known.
std::optional<std::vector<int>> axes_of(const Instruction& instruction) {
  const InstructionReader reader(instruction);
  const int rank = instruction.operands()[0]->type().rank();
  std::vector<int> axes;
  if (reader.has(1)) {
    const auto& elements = instruction.operands()[1]->elements();
    if (!elements) return std::nullopt;
    for (const Dim& element : *elements) {
      if (!element.is_constant()) return std::nullopt;
      const auto axis = static_cast<int>(*element.constant());
      axes.push_back(axis < 0 ? axis + rank : axis);
    }
  }
  std::ranges::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty() && !reader.boolean("noop_with_empty_axes")) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  return axes;
}

class ReduceKernel final : public GpuKernel {
 public:
  ReduceKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)),
        axes_(*axes_of(instruction)),
        keeps_dims_(InstructionReader(instruction).boolean("keep_dims")) {
    const Reduction& reduction = *find_reduction(instruction.op());
    const ElementType element = instruction.result()->type().element;
    const ExprType type = reduction.type(element);
    const Expr init = Expr::constant_from_bits(type, reduction.init(element));
    const Expr first = Expr::argument(0, type);
    const Expr second = Expr::argument(1, type);
    code_ = device.code().get(
        {"reduce", fmt::format("typedef {} T;\ntypedef {} A;\n{}{}{}{}{}", type_name(element),
                               type_name(type), device_function("init", init),
                               device_function("term", reduction.term(first)),
                               device_function("combined", reduction.combined(first, second)),
                               device_function("finished", reduction.finish(first, second)),
                               kernel_text("reduce.gpu"))});
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[0];
    const TensorView& y = *args.out[0];
    Axes<2> kept;
    Axes<1> reduced;
    int place = 0;
    for (int axis = 0; axis < x.rank; ++axis) {
      const bool gone = std::ranges::binary_search(axes_, axis);
      if (gone) {
        reduced.add(x.dims[axis], {x.strides[axis]});
      } else {
        kept.add(x.dims[axis], {x.strides[axis], y.strides[place]});
      }
      if (!gone || keeps_dims_) ++place;
    }
    const int64_t count = y.count();
    const int64_t folded = reduced.count();
    if (count == 0) return;
    const auto group = static_cast<int64_t>(
        std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(folded / 2, 1, kThreads))));
    Arguments arguments;
    arguments.add(x.data);
    arguments.add(y.data);
    arguments.add(count);
    arguments.add(group);
    arguments.add(folded);
    arguments.add(static_cast<int64_t>(kept.rank));
    arguments.add(kept.sizes, kAxes);
    arguments.add(kept.strides[0], kAxes);
    arguments.add(static_cast<int64_t>(reduced.rank));
    arguments.add(reduced.sizes, kAxes);
    arguments.add(reduced.strides[0], kAxes);
    arguments.add(kept.strides[1], kAxes);
    enqueue(*code_, args, arguments, {blocks_for(count * group, kThreads), 1, 1}, kThreads);
  }

 private:
  std::vector<int> axes_;
  bool keeps_dims_;
  std::shared_ptr<const Code> code_;
};

std::string why_no_reduce(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const ElementType element = instruction.result()->type().element;
  if (element == ElementType::boolean) return "booleans are not folded";
  if (is_integer(element) && find_reduction(instruction.op())->real) return "reals of integers";
  return axes_of(instruction) ? "" : "the axes are not known";
}

KernelChoice make_reduce(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<ReduceKernel>(device, instruction), ""};
}

bool is_small_float(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

class SoftmaxKernel final : public GpuKernel {
 public:
  SoftmaxKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)),
        axis_(InstructionReader(instruction).axis("axis", instruction.result()->type().rank())) {
    code_ =
        device.code().get({"softmax", fmt::format("typedef {} T;\n{}",
                                                  type_name(instruction.result()->type().element),
                                                  kernel_text("softmax.gpu"))});
  }
  bool may_overwrite(int /*operand*/) const override { return true; }
  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[0];
    const TensorView& y = *args.out[0];
    if (y.count() == 0) return;
    Axes<2> rows;
    for (int axis = 0; axis < x.rank; ++axis) {
      if (axis != axis_) rows.add(x.dims[axis], {x.strides[axis], y.strides[axis]});
    }
    Arguments arguments;
    arguments.add(x.data);
    arguments.add(y.data);
    arguments.add(rows.count());
    arguments.add(x.dims[axis_]);
    arguments.add(x.strides[axis_]);
    arguments.add(y.strides[axis_]);
    arguments.add(static_cast<int64_t>(rows.rank));
    arguments.add(rows.sizes, kAxes);
    arguments.add(rows.strides[0], kAxes);
    arguments.add(rows.strides[1], kAxes);
    const uint32_t threads = threads_for(x.dims[axis_]);
    enqueue(*code_, args, arguments, {blocks_for(rows.count() * threads, threads), 1, 1}, threads);
  }

 private:
  int axis_;
  std::shared_ptr<const Code> code_;
};

std::string why_no_softmax(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  if (instruction.result()->type().rank() == 0) return "a scalar";
  return is_small_float(instruction.result()->type().element) ? "" : "f64 is expanded";
}

KernelChoice make_softmax(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<SoftmaxKernel>(device, instruction), ""};
}

}  // namespace

extern const KernelEntry kRows[];
extern const size_t kRowCount;
const KernelEntry kRows[] = {
    {ops::reduce_l1, why_no_reduce, make_reduce},
    {ops::reduce_l2, why_no_reduce, make_reduce},
    {ops::reduce_log_sum, why_no_reduce, make_reduce},
    {ops::reduce_max, why_no_reduce, make_reduce},
    {ops::reduce_mean, why_no_reduce, make_reduce},
    {ops::reduce_min, why_no_reduce, make_reduce},
    {ops::reduce_prod, why_no_reduce, make_reduce},
    {ops::reduce_sum, why_no_reduce, make_reduce},
    {ops::reduce_sum_square, why_no_reduce, make_reduce},
    {ops::softmax, why_no_softmax, make_softmax},
};
const size_t kRowCount = std::size(kRows);

}  // namespace lathe::gpu

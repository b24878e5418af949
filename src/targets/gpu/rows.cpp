// SPDX-License-Identifier: MIT
// Reductions, softmax and normalisations.
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

// The operands of a normalisation; -1: none.
struct NormOperands {
  const Op& op;
  bool centred = false;
  int scale = 1;
  int bias = -1;
  int skip = -1;
  int skip_bias = -1;
  int mean = -1;  // results
  int inverse = -1;
  int sum = -1;
};

const NormOperands* norm_of(const Op& op) {
  static const NormOperands all[] = {
      {.op = ops::layer_normalization, .centred = true, .bias = 2, .mean = 1, .inverse = 2},
      {.op = ops::rms_normalization},
      {.op = ops::simplified_layer_normalization, .inverse = 1},
      {.op = ops::skip_layer_normalization,
       .centred = true,
       .scale = 2,
       .bias = 3,
       .skip = 1,
       .skip_bias = 4,
       .mean = 1,
       .inverse = 2,
       .sum = 3},
      {.op = ops::skip_simplified_layer_normalization,
       .scale = 2,
       .skip = 1,
       .skip_bias = 3,
       .inverse = 2,
       .sum = 3},
  };
  const auto* at = std::ranges::find_if(all, [&](const NormOperands& n) { return n.op == op; });
  return at == std::end(all) ? nullptr : at;
}

class NormKernel final : public GpuKernel {
 public:
  NormKernel(const GpuDevice& device, const Instruction& instruction)
      : GpuKernel(device, std::string(instruction.op().name)),
        norm_(*norm_of(instruction.op())),
        epsilon_(InstructionReader(instruction).number("epsilon")) {
    const InstructionReader reader(instruction);
    const auto type_of = [&](int i) {
      return type_name(i >= 0 && reader.has(i)
                           ? instruction.operands()[static_cast<size_t>(i)]->type().element
                           : instruction.operands()[0]->type().element);
    };
    for (const Value& result : instruction.results()) used_.push_back(!result.uses().empty());
    code_ = device.code().get(
        {"normalization",
         fmt::format("#define CENTRED {}\n#define SKIP {}\n#define SKIP_BIAS {}\ntypedef {} T;\n"
                     "typedef {} TS;\ntypedef {} TB;\n{}",
                     norm_.centred ? 1 : 0, norm_.skip >= 0 ? 1 : 0,
                     norm_.skip_bias >= 0 && reader.has(norm_.skip_bias) ? 1 : 0, type_of(0),
                     type_of(norm_.scale), type_of(norm_.bias), kernel_text("normalization.gpu"))});
  }

  void launch(const LaunchArgs& args) const override {
    const TensorView& x = *args.in[0];
    if (x.count() == 0) return;
    const int last = x.rank - 1;
    const int64_t rows = x.count() / x.dims[last];
    Arguments arguments;
    arguments.add(rows);
    arguments.add(x.dims[last]);
    arguments.add(epsilon_);
    arguments.add(static_cast<int64_t>(last));
    arguments.add(x.extents().first(static_cast<size_t>(last)), kAxes, 1);
    const auto add_matrix = [&](const TensorView* view) {
      arguments.add(view == nullptr ? nullptr : view->data);
      for (size_t axis = 0; axis < kAxes; ++axis) {
        arguments.add(view != nullptr && static_cast<int>(axis) < last ? view->strides[axis] : 0);
      }
      arguments.add(view == nullptr ? 0 : view->strides[last]);
    };
    const auto operand = [&](int i) {
      return i >= 0 && args.has(static_cast<size_t>(i)) ? args.in[static_cast<size_t>(i)] : nullptr;
    };
    const auto add_vector = [&](int i) {
      const TensorView* view = operand(i);
      arguments.add(view == nullptr ? nullptr : view->data);
      arguments.add(view == nullptr || view->rank == 0 || view->dims[view->rank - 1] == 1
                        ? int64_t{0}
                        : view->strides[view->rank - 1]);
    };
    const auto result = [&](int i) -> const TensorView* {
      return i >= 0 && used_[static_cast<size_t>(i)] ? args.out[static_cast<size_t>(i)] : nullptr;
    };
    add_matrix(&x);
    add_matrix(operand(norm_.skip));
    add_vector(norm_.skip_bias);
    add_vector(norm_.scale);
    add_vector(norm_.bias);
    add_matrix(args.out[0]);
    add_matrix(result(norm_.sum));
    add_matrix(result(norm_.mean));
    add_matrix(result(norm_.inverse));
    const uint32_t threads = norm_threads(rows, x.dims[last], info(x.type).bits / 8);
    enqueue(*code_, args, arguments, {blocks_for(rows * threads, threads), 1, 1}, threads);
  }

 private:
  // A piece of 16 bytes per thread, two where there are rows enough to fill the device.
  uint32_t norm_threads(int64_t rows, int64_t columns, int64_t bytes) const {
    constexpr int64_t kLeast = 32;
    constexpr int64_t kMost = 512;
    constexpr int64_t kPieceBytes = 16;
    const int64_t pieces = (columns * bytes + kPieceBytes - 1) / kPieceBytes;
    const bool many = rows > device_.driver().limits().multiprocessors;
    const auto wanted =
        static_cast<uint64_t>(std::max<int64_t>(many ? (pieces + 1) / 2 : pieces, 1));
    return static_cast<uint32_t>(
        std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(wanted)), kLeast, kMost));
  }

  const NormOperands& norm_;
  double epsilon_;
  std::vector<bool> used_;
  std::shared_ptr<const Code> code_;
};

std::string why_no_norm(const Instruction& instruction) {
  std::string reason = why_no_types(instruction);
  if (!reason.empty()) return reason;
  const NormOperands& norm = *norm_of(instruction.op());
  const InstructionReader reader(instruction);
  const Type& type = instruction.operands()[0]->type();
  if (type.rank() == 0) return "a scalar";
  if (find_attribute(instruction.attributes(), "axis") != nullptr &&
      reader.axis("axis", type.rank()) != type.rank() - 1) {
    return "it normalises several axes";
  }
  for (const Value* operand : instruction.operands()) {
    if (operand != nullptr && !is_small_float(operand->type().element)) return "f64 is expanded";
  }
  for (const int i : {norm.scale, norm.bias, norm.skip_bias}) {
    if (i < 0 || !reader.has(i)) continue;
    const Type& own = instruction.operands()[static_cast<size_t>(i)]->type();
    if (own.rank() > 1 || (own.rank() == 1 && !(own.dims->back() == type.dims->back()))) {
      return "factors are not per column";
    }
  }
  for (const int i : {norm.skip, norm.skip_bias}) {
    if (i < 0 || !reader.has(i)) continue;
    if (!(instruction.operands()[static_cast<size_t>(i)]->type().element == type.element)) {
      return "the operands of the sum have several types";
    }
  }
  if (norm.skip >= 0 &&
      !(*instruction.operands()[static_cast<size_t>(norm.skip)]->type().dims == *type.dims)) {
    return "the operands of the sum have several shapes";
  }
  for (size_t i = 1; i < instruction.results().size(); ++i) {
    const Value& result = instruction.results()[i];
    const bool sum = static_cast<int>(i) == norm.sum;
    const bool known =
        sum || static_cast<int>(i) == norm.mean || static_cast<int>(i) == norm.inverse;
    if (result.uses().empty()) continue;
    if (!known || result.type().element != (sum ? type.element : ElementType::f32)) {
      return fmt::format("result {} is used", i);
    }
  }
  return "";
}

KernelChoice make_norm(const GpuDevice& device, const Instruction& instruction, Constants) {
  return {std::make_unique<NormKernel>(device, instruction), ""};
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
    {ops::layer_normalization, why_no_norm, make_norm},
    {ops::rms_normalization, why_no_norm, make_norm},
    {ops::simplified_layer_normalization, why_no_norm, make_norm},
    {ops::skip_layer_normalization, why_no_norm, make_norm},
    {ops::skip_simplified_layer_normalization, why_no_norm, make_norm},
};
const size_t kRowCount = std::size(kRows);

}  // namespace lathe::gpu

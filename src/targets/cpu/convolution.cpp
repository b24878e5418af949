// SPDX-License-Identifier: MIT
// conv, conv_transpose, conv_integer, qlinear_conv.
#include "targets/cpu/kernels/conv/convolution.h"

#include "ops/support/convolution.h"
#include "ops/support/quantization.h"
#include "targets/cpu/convolution_cache.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

// Operand indices of an op; -1: none.
struct Places {
  int x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias;
};
constexpr Places kFloat{0, -1, -1, 1, -1, -1, -1, -1, 2};
constexpr Places kInteger{0, -1, 2, 1, -1, 3, -1, -1, -1};
constexpr Places kQlinear{0, 1, 2, 3, 4, 5, 6, 7, 8};

const Places& places_of(const Instruction& instruction) {
  const std::string_view op = instruction.op().name;
  return op == "conv_integer" ? kInteger : op == "qlinear_conv" ? kQlinear : kFloat;
}

// An evaluation with shapes but no data, to prepare a convolution before the first run. An unknown
// batch counts as 1. is_valid() is false if another dimension is unknown.
class StaticShapes final : public Evaluation {
 public:
  explicit StaticShapes(const Instruction& instruction) {
    instruction_ = &instruction;
    for (const Value* operand : instruction.operands()) {
      inputs_.push_back(operand == nullptr ? TensorView{} : view_of(operand->type()));
    }
    outputs_.push_back(view_of(instruction.result()->type()));
  }
  bool is_valid() const { return valid_; }
  const TensorView& out(int i, std::span<const int64_t>) override { return Evaluation::out(i); }
  const Box& box(int) const override { fail("shapes have no {}", "boxes"); }
  void set_box(int, Box) override {}

 private:
  TensorView view_of(const Type& type) {
    TensorView view;
    view.type = type.element;
    valid_ = valid_ && type.is_ranked();
    if (!type.is_ranked()) return view;
    view.rank = type.rank();
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      const auto extent = (*type.dims)[axis].constant();
      valid_ = valid_ && (extent || axis == 0);
      view.dims[axis] = extent.value_or(1);
    }
    return view;
  }
  bool valid_ = true;
};

ConvProblem problem_of(const Evaluation& c, const Places& at, bool transposed) {
  const TensorView& x = c.in(at.x);
  const TensorView& y = c.out();
  const TensorView& w = c.in(at.w);
  ConvProblem p;
  p.batch = x.dims[0];
  p.channels = x.dims[1];
  p.outputs = y.dims[1];
  p.groups = c.integer("group");
  const std::vector<WindowAxis> axes =
      transposed ? transposed_axes(c) : window_axes(c, x, y, w.extents().subspan(2));
  const size_t first = kConvAxes - axes.size();
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& axis = axes[i];
    p.axes[first + i] = {axis.input,  axis.output,   axis.kernel,
                         axis.stride, axis.dilation, axis.pad_begin};
  }
  p.transposed = transposed;
  p.x_type = x.type;
  p.y_type = y.type;
  p.x_layout = ActivationLayout::channels_first;
  p.y_layout = ActivationLayout::channels_first;
  return p;
}

// View with shape [n, c, spatial…] over channels-last memory.
TensorView channels_last_view(const TensorView& like, void* data) {
  TensorView view = like;
  view.data = data;
  int64_t stride = like.dims[1];
  view.strides[1] = 1;
  for (int axis = like.rank - 1; axis >= 2; --axis) {
    view.strides[static_cast<size_t>(axis)] = stride;
    stride *= like.dims[static_cast<size_t>(axis)];
  }
  view.strides[0] = stride;
  return view;
}

// Bias, zero points and factors of an integer convolution.
struct Integers32 {
  std::vector<int32_t> bias;
  std::vector<float> factors;
  int32_t x_zero = 0;
  float y_zero = 0;
};

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const Instruction& instruction, Constants constants, Isa isa)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        isa_(isa),
        at_(places_of(instruction)),
        transposed_(instruction.op().name == "conv_transpose"),
        forms_(isa) {
    const Tensor* w = constant_at(constants, static_cast<size_t>(at_.w));
    const Tensor* zero = zero_operand(instruction) ? constant_at(constants, zero_place()) : nullptr;
    if (w == nullptr || (zero_operand(instruction) && zero == nullptr)) return;
    forms_.keep(*w, zero);
    const StaticShapes shapes(instruction);
    if (shapes.is_valid() && shapes.in(at_.x).count() > 0 && shapes.Evaluation::out().count() > 0) {
      prepared_ = forms_.find(problem_of(shapes, at_, transposed_));
    }
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override {
    return !(forms_.keeps() && (operand == at_.w || operand == at_.w_zero));
  }
  std::string detail() const override {
    return prepared_ == nullptr
               ? fmt::format("{}, packs weights at run time", to_string(isa_))
               : fmt::format("{}, {}, {} packed", to_string(isa_), to_string(prepared_->form),
                             megabytes(prepared_->weights->bytes()));
  }

  void launch(Evaluation& c) const override {
    if (c.out().count() == 0) return;
    Tensor copy;
    TensorView made;
    const TensorView& x = dense_view(c.in(at_.x), copy, made);
    const ConvProblem problem = problem_of(c, at_, transposed_);
    check_problem(problem);
    const auto prepared = forms_.keeps()
                              ? forms_.find(problem)
                              : forms_.make(problem, dense_tensor(c.in(at_.w)), weight_zeros(c));
    if (prepared->channels_last) {
      Tensor last(c.out().type, Dims(c.out().extents().begin(), c.out().extents().end()));
      run(c, x.data, last.data(), *prepared);
      copy_elements(channels_last_view(c.out(), last.data()), c.out());
      return;
    }
    with_dense_result(c, [&](const TensorView& y) { run(c, x.data, y.data, *prepared); });
  }

 private:
  size_t zero_place() const { return static_cast<size_t>(std::max(0, at_.w_zero)); }
  bool zero_operand(const Instruction& instruction) const {
    return at_.w_zero >= 0 && has_operand(instruction, zero_place());
  }
  std::vector<int32_t> weight_zeros(const Evaluation& c) const {
    std::vector<int32_t> zeros;
    if (at_.w_zero < 0 || !c.has(at_.w_zero)) return zeros;
    for (const int64_t value : c.values(at_.w_zero)) zeros.push_back(static_cast<int32_t>(value));
    return zeros;
  }

  void run(const Evaluation& c, const void* x, void* y, const PreparedConvolution& prepared) const {
    ConvCall call;
    call.x = x;
    call.y = y;
    call.weights = prepared.weights->data();
    call.pool = c.pool;
    call.epilogue.out = c.out().type;
    EpilogueStep step;
    Integers32 integers;
    if (at_.x_zero >= 0) {
      integers = integers_of(c);
      call.x_zero = integers.x_zero;
      call.integer_bias = integers.bias.empty() ? nullptr : integers.bias.data();
      if (!integers.factors.empty()) {
        step.kind = EpilogueStep::Kind::mul;
        step.operand.data = integers.factors.data();
        step.operand.column_stride = integers.factors.size() > 1 ? 1 : 0;
        call.epilogue.steps = {&step, 1};
        call.epilogue.out_zero.scale = integers.y_zero;
      }
    } else if (c.has(at_.bias)) {
      step.kind = EpilogueStep::Kind::add;
      step.operand.data = c.in(at_.bias).data;
      step.operand.type = c.in(at_.bias).type;
      step.operand.column_stride = c.in(at_.bias).strides[0];
      call.epilogue.steps = {&step, 1};
    }
    prepared.convolution->run(call);
  }

  Integers32 integers_of(const Evaluation& c) const {
    Integers32 out;
    const auto channels = static_cast<size_t>(c.out().dims[1]);
    if (c.has(at_.x_zero)) {
      const std::vector<int64_t> zeros = c.values(at_.x_zero);
      c.check(zeros.size() == 1, "x has {} zero points, expected 1", zeros.size());
      out.x_zero = static_cast<int32_t>(zeros[0]);
    }
    if (at_.bias >= 0 && c.has(at_.bias)) {
      for (const int64_t value : c.values(at_.bias))
        out.bias.push_back(static_cast<int32_t>(value));
    }
    if (at_.y_scale < 0) return out;
    const float x_scale = float_values(c.in(at_.x_scale))[0];
    const float y_scale = float_values(c.in(at_.y_scale))[0];
    for (const float w_scale : float_values(c.in(at_.w_scale))) {
      out.factors.push_back(x_scale * w_scale / y_scale);
    }
    c.check(out.factors.size() == 1 || out.factors.size() == channels,
            "{} weight scales, expected 1 or {}", out.factors.size(), channels);
    out.y_zero = static_cast<float>(c.values(at_.y_zero)[0]);
    return out;
  }

  std::string name_;
  Isa isa_;
  Places at_;
  bool transposed_;
  ConvolutionCache forms_;
  // For the static shape; null if it is dynamic.
  std::shared_ptr<const PreparedConvolution> prepared_;
};

bool is_single(const Instruction& instruction, int operand) {
  const Type& type = instruction.operands()[static_cast<size_t>(operand)]->type();
  return std::all_of(type.dims->begin(), type.dims->end(),
                     [](const Dim& dim) { return dim == Dim(1); });
}

std::string why_not_convolution(const Instruction& instruction, Isa isa) {
  const Places& at = places_of(instruction);
  const ElementType x = element_of(instruction, static_cast<size_t>(at.x));
  const ElementType w = element_of(instruction, static_cast<size_t>(at.w));
  const bool floats = (x == ElementType::f32 || x == ElementType::bf16) && w == x;
  const auto is_byte = [](ElementType type) {
    return type == ElementType::u8 || type == ElementType::i8;
  };
  if (!floats && !(is_byte(x) && is_byte(w))) {
    return fmt::format("no convolution kernel for {} and {}", to_string(x), to_string(w));
  }
  const int rank = instruction.operands()[static_cast<size_t>(at.x)]->type().rank();
  if (rank > kConvAxes + 2)
    return fmt::format("{} spatial axes, supported: 1 to {}", rank - 2, kConvAxes);
  if (!is_supported(isa, x, instruction.op().name == "conv_transpose")) {
    return fmt::format("no convolution kernel for {} on {}", to_string(x), to_string(isa));
  }
  if (at.y_scale < 0) return "";
  for (const int operand : {at.x_scale, at.x_zero, at.y_scale, at.y_zero}) {
    if (!is_single(instruction, operand)) return "x or y has several scales or zero points";
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  return {std::make_unique<ConvolutionKernel>(instruction, constants, isa), ""};
}

}  // namespace

const KernelEntry kConv{"conv", why_not_convolution, make};
const KernelEntry kConvInteger{"conv_integer", why_not_convolution, make};
const KernelEntry kConvTranspose{"conv_transpose", why_not_convolution, make};
const KernelEntry kQlinearConv{"qlinear_conv", why_not_convolution, make};

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// conv, conv_transpose, conv_integer, qlinear_conv.
#include "targets/cpu/kernels/conv/convolution.h"

#include <algorithm>
#include <cstring>

#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/support/convolution.h"
#include "ops/support/views.h"
#include "targets/cpu/anchor.h"
#include "targets/cpu/convolution_cache.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/operands.h"
#include "tensor/convert.h"

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
  const Op& op = instruction.op();
  return op == ops::conv_integer ? kInteger : op == ops::qlinear_conv ? kQlinear : kFloat;
}

// The side of an image, or the length of a sequence, for which weights of unknown sizes are packed.
constexpr int64_t kUsualExtent = 224;

// The shape in the value's layout: a batch of 1 and usual extents where they are unknown; nullopt
// if some other extent is not known then, or windows are larger than usual images.
std::optional<TensorView> usual_shape(const Value& value) {
  if (!value.type().is_ranked()) return std::nullopt;
  const auto extent_of = [](const Dim& dim) {
    return dim.evaluate([](const Symbol& symbol) -> std::optional<int64_t> {
      return std::clamp(kUsualExtent, symbol.range.min, symbol.range.max);
    });
  };
  TensorView view;
  view.type = value.type().element;
  view.rank = value.type().rank();
  for (size_t axis = 0; axis < value.type().dims->size(); ++axis) {
    const Dim& dim = (*value.type().dims)[axis];
    // Channels are those of the weights, whatever is known of them.
    const std::optional<int64_t> extent = axis == 0   ? std::optional(dim.constant().value_or(1))
                                          : axis == 1 ? dim.constant()
                                                      : extent_of(dim);
    if (!extent || *extent < 0) return std::nullopt;
    view.dims[axis] = *extent;
  }
  return ordered_view(view.type, view.extents(), value.layout(), nullptr);
}

// True if only the batch may be unknown.
bool has_known_extents(const Value& value) {
  const std::vector<Dim>& dims = *value.type().dims;
  return std::all_of(dims.begin() + 1, dims.end(),
                     [](const Dim& dim) { return dim.is_constant(); });
}

class ConvolutionKernel final : public AnchorKernel {
 public:
  // `x` and `y` are the plan's values; in a region they differ from the instruction's.
  ConvolutionKernel(const Instruction& instruction, Constants constants, Isa isa, const Value& x,
                    const Value& y, bool scales_x = false)
      : name_(fmt::format("cpu.{}", instruction.op().name)),
        origin_(instruction),
        isa_(isa),
        at_(places_of(instruction)),
        transposed_(instruction.op() == ops::conv_transpose),
        scales_x_(scales_x),
        forms_(isa) {
    const InstructionReader c(instruction);
    const size_t axes = static_cast<size_t>(x.type().rank()) - 2;
    groups_ = c.integer("group");
    if (transposed_) {
      window_ = TransposedWindow(c, axes);
    } else {
      window_.attributes = WindowAttributes(c, axes);
    }
    const Tensor* w = constant_at(constants, static_cast<size_t>(at_.w));
    const Tensor* zero = zero_operand(instruction) ? constant_at(constants, zero_place()) : nullptr;
    if (w == nullptr || (zero_operand(instruction) && zero == nullptr)) return;
    forms_.keep(*w, zero);
    const auto from = usual_shape(x), to = usual_shape(y);
    if (!from || !to || from->count() <= 0 || to->count() <= 0) return;
    is_usual_ = !has_known_extents(x) || !has_known_extents(y);
    // How a transposed convolution packs depends on its extents.
    if (!is_usual_ || !transposed_) prepared_ = forms_.find(problem_of(*from, w->view(), *to));
  }

  std::string_view name() const override { return name_; }
  bool reads(int operand) const override {
    return !(forms_.keeps() && (operand == at_.w || operand == at_.w_zero));
  }
  std::string detail() const override {
    return prepared_ == nullptr
               ? fmt::format("{}, packs weights at {}", to_string(isa_),
                             forms_.keeps() ? "the first run" : "run time")
               : fmt::format("{}, {}, {} packed{}", to_string(isa_), to_string(prepared_->form),
                             megabytes(prepared_->weights->bytes()),
                             is_usual_ ? fmt::format(" as for axes of {}", kUsualExtent) : "");
  }

  void reserve(const LaunchArgs& most, const AnchorEpilogue& epilogue,
               ScratchLayout& workspace) const override {
    const TensorView& y = *most.out[0];
    const TensorView& x = operand(most, at_.x);
    if (!is_channels_last(x)) {
      scales_x_ ? void(workspace.take<std::byte>(bytes_for(x.type, x.count())))
                : reserve_copy(&x, workspace);
    }
    if (!forms_.keeps()) {
      reserve_copy(&operand(most, at_.w), workspace);
      if (has(most, at_.w_zero)) reserve_floats(operand(most, at_.w_zero), workspace);
      workspace.take<int32_t>(y.dims[1]);
    }
    if (!is_channels_last(y) && (!y.is_dense() || is_strided_transposed())) {
      workspace.take<std::byte>(bytes_for(y.type, y.count()));
    }
    for (const int i : {at_.bias, at_.w_scale}) {
      if (at_.x_zero >= 0 && has(most, i)) reserve_floats(operand(most, i), workspace);
    }
    if (at_.y_scale >= 0) workspace.take<float>(y.dims[1]);
    if (scales_x_) {
      reserve_floats(*epilogue.factors, workspace);
      workspace.take<float>(y.dims[0] * operand(most, at_.x).dims[1]);
    }
    epilogue.reserve(is_channels_last(y)       ? y
                     : is_strided_transposed() ? channels_last_view(y, y.data)
                                               : dense_strides_of(y),
                     workspace);
  }

  void run(const LaunchArgs& args, const AnchorEpilogue& epilogue) const override {
    const TensorView& out = *args.out[0];
    if (out.count() == 0) return;
    ScratchLayout workspace = workspace_of(args);
    TensorView x = operand(args, at_.x);
    if (!is_channels_last(x)) {
      x = scales_x_ ? channels_last_copy(x, workspace) : dense_operand(x, workspace);
    }
    const ConvProblem problem = problem_of(x, operand(args, at_.w), out);
    check_problem(problem);
    TunedProblem* tuned = forms_.tuned(problem);
    const TunedLaunch launch(tuned);
    const auto prepared = forms_.find(problem, tuned, is_usual_ ? prepared_.get() : nullptr);
    ThreadPool* pool = ConvolutionCache::is_alone(tuned) ? nullptr : args.pool;
    if (prepared->weights != nullptr) {
      return run(args, epilogue, x.data, *prepared, prepared->weights->data(), workspace, pool);
    }
    // The packed form and its size depend on this launch's shape.
    const auto bytes = prepared->convolution->packed_bytes();
    const ScratchBlock packed(static_cast<int64_t>(bytes));
    std::memset(packed.data(), 0, bytes);
    pack(args, *prepared, packed.data(), workspace);
    run(args, epilogue, x.data, *prepared, packed.data(), workspace, pool);
  }

 private:
  static bool has(const LaunchArgs& args, int operand) {
    return operand >= 0 && args.has(static_cast<size_t>(operand));
  }
  static const TensorView& operand(const LaunchArgs& args, int operand) {
    return *args.in[static_cast<size_t>(operand)];
  }
  size_t zero_place() const { return static_cast<size_t>(std::max(0, at_.w_zero)); }
  bool zero_operand(const Instruction& instruction) const {
    return at_.w_zero >= 0 && has_operand(instruction, zero_place());
  }
  // A strided transposed convolution writes y channels-last.
  bool is_strided_transposed() const {
    return transposed_ && std::ranges::any_of(window_.attributes.strides,
                                              [](int64_t stride) { return stride != 1; });
  }

  ConvProblem problem_of(const TensorView& x, const TensorView& w, const TensorView& y) const {
    ConvProblem p;
    p.batch = x.dims[0];
    p.channels = x.dims[1];
    p.outputs = y.dims[1];
    p.groups = groups_;
    p.scales_x = scales_x_;
    std::array<WindowAxis, kConvAxes> axes;
    const auto kernel = w.extents().subspan(2);
    if (transposed_) {
      transposed_axes(window_, x, y, kernel, axes);
    } else {
      window_axes(window_.attributes, x, y, kernel, axes);
    }
    const size_t first = kConvAxes - kernel.size();
    for (size_t i = 0; i < kernel.size(); ++i) {
      const WindowAxis& axis = axes[i];
      p.axes[first + i] = {axis.input,  axis.output,   axis.kernel,
                           axis.stride, axis.dilation, axis.pad_begin};
    }
    p.transposed = transposed_;
    p.x_type = x.type;
    p.y_type = y.type;
    p.x_layout = is_channels_last(x) || scales_x_ ? ActivationLayout::channels_last
                                                  : ActivationLayout::channels_first;
    p.y_layout =
        is_channels_last(y) ? ActivationLayout::channels_last : ActivationLayout::channels_first;
    return p;
  }

  void pack(const LaunchArgs& args, const PreparedConvolution& prepared, void* to,
            ScratchLayout& workspace) const {
    const TensorView w = dense_operand(operand(args, at_.w), workspace);
    std::span<const int32_t> zeros;
    if (has(args, at_.w_zero)) zeros = int32_elements(operand(args, at_.w_zero), workspace);
    const int64_t outputs = prepared.problem.outputs;
    const std::span<int32_t> each(workspace.take<int32_t>(outputs), static_cast<size_t>(outputs));
    prepared.convolution->pack({w.data, w.type, zero_per_output(zeros, each)}, to, nullptr);
  }

  void run(const LaunchArgs& args, const AnchorEpilogue& epilogue, const void* x,
           const PreparedConvolution& prepared, const void* weights, ScratchLayout& workspace,
           ThreadPool* pool) const {
    const TensorView& out = *args.out[0];
    ConvCall call;
    call.x = x;
    call.weights = weights;
    call.pool = pool;
    call.epilogue.out = out.type;
    if (scales_x_) call.x_factors = factors_of(args, *epilogue.factors, workspace);
    EpilogueChain::Steps steps;
    if (at_.x_zero >= 0) {
      set_integers(args, call, steps, workspace);
    } else if (has(args, at_.bias)) {
      const TensorView& bias = operand(args, at_.bias);
      EpilogueStep step;
      step.kind = EpilogueStep::Kind::add;
      step.operand.data = bias.data;
      step.operand.type = bias.type;
      step.operand.column_stride = bias.strides[0];
      steps.add(step);
    }
    TensorView y =
        prepared.channels_last ? channels_last_view(out, out.data) : dense_strides_of(out);
    const bool direct = prepared.channels_last ? is_channels_last(out) : out.is_dense();
    y.data = direct ? out.data : workspace.take<std::byte>(bytes_for(out.type, out.count()));
    const auto last = static_cast<size_t>(out.rank) - 1;
    epilogue.append(y, {y.strides[last], y.strides[1], y.strides[0]}, workspace, steps);
    if (steps.out_zero) call.epilogue.out_zero.scale = *steps.out_zero;
    call.epilogue.steps = std::span(steps.steps).first(steps.count);
    call.epilogue.code = steps.code;
    call.operand_images = std::span(steps.images).first(steps.count);
    call.y = y.data;
    prepared.convolution->run(call);
    if (!direct) copy_elements(y, out);
  }

  static TensorView channels_last_copy(const TensorView& x, ScratchLayout& workspace) {
    const TensorView copy =
        channels_last_view(x, workspace.take<std::byte>(bytes_for(x.type, x.count())));
    copy_elements(x, copy);
    return copy;
  }

  // A factor per image and channel.
  const float* factors_of(const LaunchArgs& args, const TensorView& view,
                          ScratchLayout& workspace) const {
    const std::span<const float> given = float_elements(view, workspace);
    const int64_t count = args.out[0]->dims[0] * operand(args, at_.x).dims[1];
    auto* all = workspace.take<float>(count);
    for (int64_t i = 0; i < count; ++i) all[i] = given[static_cast<size_t>(i) % given.size()];
    return all;
  }

  // Sets bias, zero points and scales of an integer convolution.
  void set_integers(const LaunchArgs& args, ConvCall& call, EpilogueChain::Steps& steps,
                    ScratchLayout& workspace) const {
    if (has(args, at_.x_zero)) {
      const TensorView& zero = operand(args, at_.x_zero);
      origin_.check(zero.count() == 1, "x has {} zero points, expected 1", zero.count());
      call.x_zero = static_cast<int32_t>(load_int(zero.type, zero.data, 0));
    }
    if (has(args, at_.bias)) {
      const std::span<int32_t> bias = int32_elements(operand(args, at_.bias), workspace);
      call.integer_bias = bias.empty() ? nullptr : bias.data();
    }
    if (at_.y_scale < 0) return;
    const auto first = [&](int i) {
      float value = 0;
      convert(ElementType::f32, &value, operand(args, i).type, operand(args, i).data, 1);
      return value;
    };
    const float x_scale = first(at_.x_scale), y_scale = first(at_.y_scale);
    const std::span<const float> given = float_elements(operand(args, at_.w_scale), workspace);
    const auto channels = static_cast<size_t>(args.out[0]->dims[1]);
    origin_.check(given.size() == 1 || given.size() == channels,
                  "{} weight scales, expected 1 or {}", given.size(), channels);
    // One per column even if all are equal: microkernels apply it in registers.
    auto* factors = workspace.take<float>(args.out[0]->dims[1]);
    for (size_t i = 0; i < channels; ++i) {
      factors[i] = x_scale * given[given.size() == 1 ? 0 : i] / y_scale;
    }
    EpilogueStep step;
    step.kind = EpilogueStep::Kind::mul;
    step.operand.data = factors;
    step.operand.column_stride = 1;
    steps.add(step);
    const TensorView& y_zero = operand(args, at_.y_zero);
    call.epilogue.out_zero.scale = static_cast<float>(load_int(y_zero.type, y_zero.data, 0));
  }

  std::string name_;
  OpOrigin origin_;
  Isa isa_;
  Places at_;
  bool transposed_;
  bool scales_x_;
  int64_t groups_ = 1;
  TransposedWindow window_;
  ConvolutionCache forms_;
  // Prepared for the static shape; null if the shape is dynamic.
  std::shared_ptr<const PreparedConvolution> prepared_;
  bool is_usual_ = false;  // prepared for usual extents, as they are unknown
};

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
  if (!is_supported(isa, x, instruction.op() == ops::conv_transpose)) {
    return fmt::format("no convolution kernel for {} on {}", to_string(x), to_string(isa));
  }
  if (at.y_scale < 0) return "";
  for (const int operand : {at.x_scale, at.x_zero, at.y_scale, at.y_zero}) {
    if (!is_single(instruction, operand)) return "x or y has several scales or zero points";
  }
  return "";
}

KernelChoice make(const Instruction& instruction, Constants constants, Isa isa) {
  const auto x = static_cast<size_t>(places_of(instruction).x);
  return {std::make_unique<ConvolutionKernel>(instruction, constants, isa,
                                              *instruction.operands()[x], *instruction.result()),
          ""};
}

}  // namespace

std::unique_ptr<const AnchorKernel> make_convolution_anchor(const Instruction& instruction,
                                                            Constants constants, Isa isa,
                                                            const Value& x, const Value& y,
                                                            bool scales_x) {
  return std::make_unique<ConvolutionKernel>(instruction, constants, isa, x, y, scales_x);
}

const KernelEntry kConv{ops::conv, why_not_convolution, make};
const KernelEntry kConvInteger{ops::conv_integer, why_not_convolution, make};
const KernelEntry kConvTranspose{ops::conv_transpose, why_not_convolution, make};
const KernelEntry kQlinearConv{ops::qlinear_conv, why_not_convolution, make};

}  // namespace lathe::cpu

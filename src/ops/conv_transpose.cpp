// SPDX-License-Identifier: MIT
#include "ops/support/convolution.h"

namespace lathe {
namespace {

void infer_conv_transpose(Infer& c) {
  c.check(c.rank(0) >= 3 && c.rank(1) == c.rank(0),
          "x has rank {}, w has rank {}: expected equal "
          "ranks of at least 3",
          c.rank(0), c.rank(1));
  const auto rank = static_cast<size_t>(c.rank(0)) - 2;
  const int64_t group = c.integer("group");
  c.check(group > 0, "group is {}, expected at least 1", group);
  c.require_equal(c.dim(0, 1), c.dim(1, 0), "channels of x and w");
  const Integers strides = window_list(c, "strides", rank, 1);
  const Integers dilations = window_list(c, "dilations", rank, 1);
  const Integers pads = window_list(c, "pads", 2 * rank, 0);
  const Integers extra = window_list(c, "output_padding", rank, 0);
  const Integers fixed = window_list(c, "output_shape", rank, -1);
  const Dim channels = c.dim(1, 1) * group;
  if (c.has(2)) c.require_equal(c.dim(2, 0), channels, "bias and output channels");
  std::vector<Dim> dims = {c.dim(0, 0), channels};
  for (size_t i = 0; i < rank; ++i) {
    const Dim& in = c.dims(0)[i + 2];
    c.check(strides[i] > 0 && dilations[i] > 0 && extra[i] >= 0,
            "spatial axis {}: stride {}, dilation {} and output_padding {} are not compatible", i,
            strides[i], dilations[i], extra[i]);
    if (fixed[i] >= 0) {
      dims.push_back(fixed[i]);
    } else if (c.text("auto_pad").starts_with("SAME")) {
      dims.push_back(in * strides[i]);
    } else {
      const bool valid = c.text("auto_pad") == "VALID";
      const int64_t cut = valid ? 0 : pads[i] + pads[rank + i];
      const Dim full = (in - 1) * strides[i] + (c.dims(1)[i + 2] - 1) * dilations[i] + 1 + extra[i];
      c.require_less_equal(cut, full, fmt::format("pads on spatial axis {}", i));
      dims.push_back(full - cut);
    }
  }
  c.result(c.element(0), std::move(dims));
}

}  // namespace

TransposedWindow::TransposedWindow(const InstructionReader& c, size_t axes)
    : attributes(c, axes),
      output_padding(window_list(c, "output_padding", axes, 0)),
      fixed(c.has_attribute("output_shape") && !c.integers("output_shape").empty()) {}

void transposed_axes(const TransposedWindow& window, const TensorView& x, const TensorView& y,
                     std::span<const int64_t> kernel, std::span<WindowAxis> axes) {
  const WindowAttributes& attributes = window.attributes;
  window_axes(attributes, x, y, kernel, axes);
  for (size_t i = 0; (window.fixed || attributes.same) && i < kernel.size(); ++i) {
    WindowAxis& axis = axes[i];
    const int64_t total =
        std::max<int64_t>(0, (axis.input - 1) * axis.stride + (axis.kernel - 1) * axis.dilation +
                                 1 + window.output_padding[i] - axis.output);
    axis.pad_begin = attributes.same_upper ? total / 2 : total - total / 2;
  }
}

namespace {

template <class T>
void evaluate_transposed(Evaluation& c) {
  const TensorView& x = c.in(0);
  const TensorView w = c.in(1);
  const int64_t groups = c.integer("group");
  c.check(x.dims[1] % groups == 0, "{} channels are not a multiple of {} groups", x.dims[1],
          groups);
  const int64_t inputs = x.dims[1] / groups;
  const int64_t outputs = w.dims[1];
  // Transposes weights [channel, out channel, kernel…] to [group, out channel, channel, kernel…].
  const Tensor given = dense_tensor(w);
  int64_t taps = 1;
  for (int axis = 2; axis < w.rank; ++axis) taps *= w.dims[static_cast<size_t>(axis)];
  const Tensor transposed =
      Tensor(w.type, {groups, outputs, inputs, taps},
             {inputs * outputs * taps, taps, outputs * taps, 1}, given.data(), given.owner())
          .clone();
  const auto kernel = w.extents().subspan(2);
  std::vector<WindowAxis> axes(kernel.size());
  transposed_axes(TransposedWindow(c, kernel.size()), x, c.out(), kernel, axes);
  with_dense_result(c, [&](const TensorView& y) {
    Convolution<T> product(x, y, axes, groups);
    product.weights = {w.type, transposed.data(), 0, inputs * taps, 1};
    product.weights_group = outputs * inputs * taps;
    product.transposed = true;
    product.bias = c.has(2) ? &c.in(2) : nullptr;
    product.run(c.pool);
  });
}

}  // namespace

static const Register conv_transpose{{
    .name = "conv_transpose",
    .doc = "Transposed convolution of x [n, channels, …] with w [channels, out channels/group, …].",
    .operands = {{.name = "x", .types = kFloats, .group = 1},
                 {.name = "w", .types = kFloats, .group = 1},
                 {.name = "bias", .types = kFloats, .arity = Arity::optional, .group = 1}},
    .attributes = window_attributes(
        {{"group", 1}, {"output_padding", Integers{}}, {"output_shape", Integers{}}}),
    .infer = infer_conv_transpose,
    .eval =
        [](Evaluation& c) {
          c.in(0).type == ElementType::f64 ? evaluate_transposed<double>(c)
                                           : evaluate_transposed<float>(c);
        },
}};

}  // namespace lathe

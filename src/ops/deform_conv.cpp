// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"
#include "ops/support/window.h"

namespace lathe {
namespace {

void infer_deform_conv(Infer& c) {
  require_ranks(c, {4, 4, 4});
  const int64_t groups = require_integer(c, "group", 1);
  const int64_t offset_groups = require_integer(c, "offset_group", 1);
  c.require_equal(c.dim(0, 1), c.dim(1, 1) * groups, "channels of x and w");
  const std::vector<Dim> kernel = {c.dim(1, 2), c.dim(1, 3)};
  const std::vector<Dim> spatial = window_dims(c, std::span(c.dims(0)).subspan(2), kernel);
  const Dim taps = kernel[0] * kernel[1] * offset_groups;
  c.require_equal(c.dim(2, 1), taps * 2, "axis 1 of offset");
  for (int axis = 0; axis < 2; ++axis) {
    c.require_equal(c.dim(2, axis + 2), spatial[static_cast<size_t>(axis)], "size of offset");
    if (c.has(4)) {
      c.require_equal(c.dim(4, axis + 2), spatial[static_cast<size_t>(axis)], "size of mask");
    }
  }
  if (c.has(3)) c.require_equal(element_count(c.dims(3)), c.dim(1, 0), "elements of b");
  if (c.has(4)) c.require_equal(c.dim(4, 1), taps, "axis 1 of mask");
  c.result(c.element(0), {c.dim(0, 0), c.dim(1, 0), spatial[0], spatial[1]});
}

// Bilinear interpolation in a plane that is surrounded by zeros.
double interpolated(const double* plane, int64_t height, int64_t width, double y, double x) {
  const double y0 = std::floor(y);
  const double x0 = std::floor(x);
  double sum = 0;
  for (int i = 0; i < 4; ++i) {
    const double at_y = y0 + i / 2;
    const double at_x = x0 + i % 2;
    if (!(at_y >= 0 && at_y < static_cast<double>(height) && at_x >= 0 &&
          at_x < static_cast<double>(width))) {
      continue;
    }
    sum += (1 - std::abs(y - at_y)) * (1 - std::abs(x - at_x)) *
           plane[static_cast<int64_t>(at_y) * width + static_cast<int64_t>(at_x)];
  }
  return sum;
}

struct Operands {
  Tensor x, w, offset, bias, mask;
  std::vector<WindowAxis> axes;
  int64_t groups, offset_groups;
};

// x at the displaced position of kernel element `tap` for output pixel `at` of image n, times its
// mask.
double tap_value(const Operands& o, int64_t n, int64_t channel, int64_t tap, int64_t at) {
  const int64_t taps = o.axes[0].kernel * o.axes[1].kernel;
  const int64_t pixels = o.axes[0].output * o.axes[1].output;
  const int64_t group = channel / (o.x.dims()[1] / o.offset_groups);
  const int64_t entry = (n * o.offset_groups + group) * taps + tap;
  double position[2];
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& axis = o.axes[i];
    const int64_t output = i == 0 ? at / o.axes[1].output : at % o.axes[1].output;
    const int64_t element = i == 0 ? tap / o.axes[1].kernel : tap % o.axes[1].kernel;
    position[i] =
        static_cast<double>(output * axis.stride - axis.pad_begin + element * axis.dilation) +
        o.offset.as<double>()[(entry * 2 + static_cast<int64_t>(i)) * pixels + at];
  }
  const double value = interpolated(
      o.x.as<double>() + (n * o.x.dims()[1] + channel) * o.axes[0].input * o.axes[1].input,
      o.axes[0].input, o.axes[1].input, position[0], position[1]);
  return o.mask.rank() == 4 ? value * o.mask.as<double>()[entry * pixels + at] : value;
}

void eval_deform_conv(Evaluation& c) {
  const auto load = [&](int i) {
    return c.has(i) ? dense_tensor(c.in(i), ElementType::f64) : Tensor();
  };
  const TensorView& out = c.out(0);
  const Tensor weights = load(1);
  const std::vector<int64_t> kernel = {weights.dims()[2], weights.dims()[3]};
  const Operands o{load(0),
                   weights,
                   load(2),
                   load(3),
                   load(4),
                   window_axes(c, c.in(0), out, kernel),
                   c.integer("group"),
                   c.integer("offset_group")};
  const Tensor y(ElementType::f64, dims_of(out));
  const int64_t pixels = y.dims()[2] * y.dims()[3];
  const int64_t taps = kernel[0] * kernel[1];
  const int64_t inputs = o.w.dims()[1];
  const int64_t outputs = y.dims()[1] / o.groups;
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t n = i / pixels / y.dims()[1];
    const int64_t channel = i / pixels % y.dims()[1];
    double sum = o.bias.rank() == 1 ? o.bias.as<double>()[channel] : 0;
    for (int64_t k = 0; k < inputs * taps; ++k) {
      sum += o.w.as<double>()[channel * inputs * taps + k] *
             tap_value(o, n, channel / outputs * inputs + k / taps, k % taps, i % pixels);
    }
    y.as<double>()[i] = sum;
  }
  store_tensor(y, out);
}

}  // namespace

static const Register deform_conv{{
    .name = "deform_conv",
    .doc = "A 2-D convolution whose kernel elements read x at positions displaced by `offset` and "
           "scaled by `mask`.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"w", kFloats, Arity::one, 'T'},
                 {"offset", kFloats, Arity::one, 'T'},
                 {"b", kFloats, Arity::optional, 'T'},
                 {"mask", kFloats, Arity::optional, 'T'}},
    .attributes = window_attributes(
        {{"group", 1}, {"kernel_shape", AttributeKind::integers, false}, {"offset_group", 1}}),
    .infer = infer_deform_conv,
    .eval = eval_deform_conv,
}};

}  // namespace lathe

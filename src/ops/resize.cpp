// SPDX-License-Identifier: MIT
// Interpolation is separable: axes are resized one by one.
#include <algorithm>
#include <cmath>

#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"
#include "ops/support/resize.h"
#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

void check_choice(const Infer& c, std::string_view attribute,
                  const std::vector<std::string_view>& choices) {
  const std::string& value = c.text(attribute);
  c.check(std::find(choices.begin(), choices.end(), value) != choices.end(),
          "{} is '{}', expected one of {}{}", attribute, escape(value), fmt::join(choices, ", "),
          did_you_mean(value, choices));
}

// ONNX allows an empty tensor for an absent operand.
bool is_present(const Infer& c, int i) {
  return c.has(i) && !(c.type(i).is_ranked() && element_count(c.dims(i)) == Dim(0));
}

// floor(dim * scale). A float is p / 2^k, so for small p and k the dim is exact.
std::optional<Dim> scaled_dim(const Dim& dim, float scale) {
  if (const auto extent = dim.constant()) {
    const float scaled = static_cast<float>(*extent) * scale;
    return Dim(static_cast<int64_t>(std::min(scaled, 1e18F)));
  }
  int64_t divisor = 1;
  while (scale != std::floor(scale) && divisor < (1 << 12)) {
    scale *= 2;
    divisor *= 2;
  }
  if (scale != std::floor(scale) || scale > 0x1p20F) return std::nullopt;
  return Dim::floor_div(dim * static_cast<int64_t>(scale), divisor);
}

void check_attributes(const Infer& c) {
  check_choice(c, "mode", {"nearest", "linear", "cubic"});
  check_choice(c, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check_choice(c, "coordinate_transformation_mode",
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  check_choice(c, "keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  c.check(!c.boolean("antialias") || c.text("mode") != "nearest",
          "antialias is not supported in mode '{}'", c.text("mode"));
  const TypeSet interpolated = kNumeric | kBoolean;
  c.check(c.text("mode") == "nearest" || (type_bit(c.element(0)) & interpolated) != 0,
          "mode '{}' does not support {}", c.text("mode"), to_string(c.element(0)));
}

void infer_resize(Infer& c) {
  check_attributes(c);
  const std::vector<int> axes = c.axes("axes", c.rank(0));
  const auto count = static_cast<int64_t>(axes.size());
  const bool by_scales = is_present(c, 2);
  c.check(by_scales != is_present(c, 3), "got {} of scales and sizes, expected one of them",
          by_scales ? "both" : "none");
  const int ratios = by_scales ? 2 : 3;
  c.require_equal(element_count(c.dims(ratios)), count, "number of scales or sizes");
  if (is_present(c, 1)) {
    const bool used = c.text("coordinate_transformation_mode") == "tf_crop_and_resize";
    if (used) c.require_equal(element_count(c.dims(1)), 2 * count, "number of values of roi");
  }
  const bool stretch = by_scales || c.text("keep_aspect_ratio_policy") == "stretch";
  std::vector<Dim> dims = c.dims(0);
  const Tensor* scales = by_scales ? c.literal(2) : nullptr;
  const std::vector<Dim>* sizes = by_scales ? nullptr : c.elements(3);
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = dims[static_cast<size_t>(axes[i])];
    std::optional<Dim> extent;
    if (scales != nullptr) {
      const float scale = static_cast<float>(
          load_double(scales->type(), scales->dense().data(), static_cast<int64_t>(i)));
      c.check(scale > 0, "scale {} is {}, expected a positive number", i, scale);
      extent = scaled_dim(dim, scale);
    } else if (sizes != nullptr && stretch) {
      extent = (*sizes)[i];
      c.require_less_equal(0, *extent, "a size");
    }
    dim = extent ? *extent : c.found("resize");
  }
  c.result(c.element(0), std::move(dims));
}

// Copies single elements.
void resize_nearest(const TensorView& x, const std::vector<ResizeTaps>& taps,
                    const TensorView& out) {
  with_raw_type(x.type, [&]<class T>(T*) {
    for_each_index(out.extents(), [&](std::span<const int64_t> at) {
      int64_t from = 0;
      for (size_t axis = 0; axis < at.size(); ++axis) {
        from += taps[axis].index[static_cast<size_t>(at[axis])] * x.strides[axis];
      }
      out.as<T>()[offset_of(out, at)] = x.as<T>()[from];
    });
  });
}

Tensor interpolate_axis(const Tensor& x, int axis, const ResizeTaps& taps) {
  Dims dims = x.dims();
  const int64_t outer = count_between(dims, 0, axis);
  const int64_t inner = count_between(dims, axis + 1, x.rank());
  const int64_t input = dims[static_cast<size_t>(axis)];
  const auto output = static_cast<int64_t>(taps.extrapolated.size());
  dims[static_cast<size_t>(axis)] = output;
  Tensor out(ElementType::f64, dims);
  for (int64_t block = 0; block < outer; ++block) {
    const double* from = x.as<double>() + block * input * inner;
    double* to = out.as<double>() + block * output * inner;
    for (int64_t i = 0; i < output; ++i, to += inner) {
      for (int64_t t = 0; t < taps.width; ++t) {
        const auto at = static_cast<size_t>(i * taps.width + t);
        const double* row = from + taps.index[at] * inner;
        const double weight = taps.weight[at];
        if (weight == 0) continue;
        for (int64_t k = 0; k < inner; ++k) to[k] += weight * row[k];
      }
    }
  }
  return out;
}

void resize_interpolated(const Evaluation& c, const std::vector<ResizeAxis>& axes,
                         const std::vector<ResizeTaps>& taps, const TensorView& out) {
  const ConvertedOperand x(c.in(0), ElementType::f64);
  Tensor values(ElementType::f64, dims_of(x.view()));
  copy_elements(x.view(), values.view());
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (!axes[axis].changes) continue;
    values = interpolate_axis(values, static_cast<int>(axis), taps[axis]);
  }
  if (is_integer(out.type)) {
    const int64_t bits = info(out.type).bits;
    const bool is_signed = info(out.type).cls == ElementClass::signed_int;
    const double high = std::ldexp(1.0, static_cast<int>(is_signed ? bits - 1 : bits)) - 1;
    const double low = is_signed ? -std::ldexp(1.0, static_cast<int>(bits - 1)) : 0;
    for (double& value : values.elements<double>()) {
      value = std::clamp(std::nearbyint(value), low, high);
    }
  }
  const Tensor rounded(out.type, values.dims());
  convert(out.type, rounded.data(), ElementType::f64, values.data(), values.count());
  copy_elements(rounded.view(), out);
}

void extrapolate(const Evaluation& c, const std::vector<ResizeTaps>& taps, const TensorView& out) {
  const double number = c.number("extrapolation_value");
  const Tensor value(out.type, {});
  convert(out.type, value.data(), ElementType::f64, &number, 1);
  for (size_t axis = 0; axis < taps.size(); ++axis) {
    for (size_t i = 0; i < taps[axis].extrapolated.size(); ++i) {
      if (!taps[axis].extrapolated[i]) continue;
      fill_elements(value.view(), narrow(out, static_cast<int>(axis), static_cast<int64_t>(i), 1));
    }
  }
}

void eval_resize(Evaluation& c) {
  const ResizeAttributes attributes(c);
  const ResizeOptions& options = attributes.options;
  const std::vector<ResizeAxis> axes = resize_axes(attributes, c, c);
  Dims dims;
  for (const ResizeAxis& axis : axes) dims.push_back(axis.output);
  const UnpackedResult out(c.out(0, dims));
  if (out.view().count() == 0) return;
  std::vector<ResizeTaps> taps;
  for (const ResizeAxis& axis : axes) {
    c.check(axis.input > 0, "an axis of size {} cannot be resized to {}", axis.input, axis.output);
    taps.push_back(resize_taps(options, axis));
  }
  if (options.mode == "nearest") {
    const UnpackedOperand x(c.in(0));
    resize_nearest(x.view(), taps, out.view());
  } else {
    resize_interpolated(c, axes, taps, out.view());
  }
  if (out.view().type != ElementType::string) extrapolate(c, taps, out.view());
  out.store();
}

}  // namespace

static const Register resize{{
    .name = "resize",
    .doc = "Resizes x, by nearest or interpolated elements.",
    .operands = {{"x"},
                 {"roi", kFloats, Arity::optional},
                 {"scales", types(ElementType::f32), Arity::optional},
                 {"sizes", types(ElementType::i64), Arity::optional}},
    .attributes = {{"mode", "nearest"},
                   {"nearest_mode", "round_prefer_floor"},
                   {"coordinate_transformation_mode", "half_pixel"},
                   {"axes", Integers{}},
                   {"antialias", Attribute(false)},
                   {"exclude_outside", Attribute(false)},
                   {"cubic_coeff_a", Attribute(-0.75)},
                   {"extrapolation_value", Attribute(0.0)},
                   {"keep_aspect_ratio_policy", "stretch"}},
    .on_host = {1, 2, 3},
    .infer = infer_resize,
    .eval = eval_resize,
}};

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Coordinates are computed in f32, as in the runtimes that models were trained and exported with:
// the nearest element at a tie depends on it.
#include "ops/support/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "ops/support/axes.h"
#include "ops/support/convert_operands.h"

namespace lathe {
namespace {

// Input coordinate of output position `i`. The scaled size may be fractional.
float source_coordinate(const std::string& mode, const ResizeAxis& axis, int64_t i) {
  const auto x = static_cast<float>(i);
  const auto input = static_cast<float>(axis.input);
  const float output = axis.scale * input;
  const float half_pixel = (x + 0.5F) / axis.scale - 0.5F;
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5F) / axis.scale;
  if (mode == "align_corners") return output == 1 ? 0 : x * (input - 1) / (output - 1);
  if (mode == "pytorch_half_pixel") return output == 1 ? -0.5F : half_pixel;
  if (mode == "half_pixel_symmetric") {
    // Moves the centre of the scaled size to that of the integer output size.
    const float adjustment = static_cast<float>(axis.output) / output;
    return input / 2 * (1 - adjustment) + half_pixel;
  }
  if (mode == "tf_crop_and_resize") {
    const float span = axis.roi_end - axis.roi_start;
    if (output == 1) return 0.5F * (axis.roi_start + axis.roi_end) * (input - 1);
    return axis.roi_start * (input - 1) + x * span * (input - 1) / (output - 1);
  }
  return half_pixel;
}

double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

int64_t nearest_index(const std::string& mode, float x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  const float low = std::floor(x);
  const bool up = mode == "round_prefer_ceil" ? x - low >= 0.5F : x - low > 0.5F;
  return static_cast<int64_t>(low) + (up ? 1 : 0);
}

// Far outside the input every tap is at the edge: clamps coordinates there.
float bounded(float x, int64_t input) {
  const auto limit = 2 * static_cast<float>(input) + 4;
  return std::isnan(x) ? 0 : std::clamp(x, -limit, limit);
}

// Taps of one output position: returns the first; `weights` holds those of it and its successors.
int64_t weights_at(const ResizeOptions& options, const ResizeAxis& axis, float x,
                   std::span<double> weights) {
  const bool cubic = options.mode == "cubic";
  const double reach = cubic ? 2 : 1;
  // Downscaling with antialias widens the filter.
  const double squeeze = options.antialias ? std::min<double>(axis.scale, 1) : 1;
  const auto base = static_cast<int64_t>(std::ceil(x)) - 1;                 // index left of x
  const double ratio = static_cast<double>(x) - static_cast<double>(base);  // in (0, 1]
  const auto start = static_cast<int64_t>(std::floor(-reach / squeeze)) + 1;
  for (size_t t = 0; t < weights.size(); ++t) {
    const double distance = (static_cast<double>(start) + static_cast<double>(t) - ratio) * squeeze;
    weights[t] =
        cubic ? cubic_weight(distance, options.cubic_a) : std::max(0.0, 1 - std::abs(distance));
  }
  return base + start;
}

void normalise(std::span<double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  if (sum == 0) return;
  for (double& weight : weights) weight /= sum;
}

// ONNX allows an empty tensor for an absent operand.
bool is_present(const OperandViews& c, int i) { return c.has(i) && c.in(i).count() > 0; }

int64_t rounded_half_up(double x) {
  return static_cast<int64_t>(std::min(std::floor(x + 0.5), 1e18));
}

// Sizes, scales and regions.
std::vector<ResizeAxis> sized_axes(const ResizeAttributes& attributes, const OpOrigin& origin,
                                   const OperandViews& c) {
  const TensorView& x = c.in(0);
  const std::vector<int> axes = named_axes(attributes.axes, x.rank);
  std::vector<ResizeAxis> out;
  for (const int64_t extent : x.extents()) out.push_back({extent, extent, 1, 0, 1});
  const auto number = [&](int operand, size_t i) {
    const ConvertedOperand values(c.in(operand), ElementType::f64);
    return values.view().as<double>()[static_cast<int64_t>(i) * values.view().strides[0]];
  };
  const bool crops = attributes.options.coordinates == "tf_crop_and_resize";
  const bool by_scales = is_present(c, 2);
  const std::vector<int64_t> sizes = by_scales ? std::vector<int64_t>{} : c.values(3);
  origin.check(by_scales || sizes.size() == axes.size(), "got {} sizes for {} axes", sizes.size(),
               axes.size());
  origin.check(!by_scales || c.in(2).count() == static_cast<int64_t>(axes.size()),
               "got {} scales for {} axes", by_scales ? c.in(2).count() : 0, axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis& axis = out[static_cast<size_t>(axes[i])];
    if (by_scales) {
      axis.scale = static_cast<float>(number(2, i));
      origin.check(axis.scale > 0, "scale {} is {}, expected a positive number", i, axis.scale);
      axis.output =
          static_cast<int64_t>(std::min(static_cast<float>(axis.input) * axis.scale, 1e18F));
    } else {
      origin.check(sizes[i] >= 0, "size {} is {}, expected at least 0", i, sizes[i]);
      axis.output = sizes[i];
      axis.scale =
          axis.input == 0 ? 1 : static_cast<float>(axis.output) / static_cast<float>(axis.input);
    }
    if (is_present(c, 1) && crops) {
      axis.roi_start = static_cast<float>(number(1, i));
      axis.roi_end = static_cast<float>(number(1, axes.size() + i));
    }
  }
  const std::string& policy = attributes.policy;
  if (by_scales || policy == "stretch" || axes.empty()) return out;
  // One scale for all axes.
  float scale = out[static_cast<size_t>(axes.front())].scale;
  for (const int axis : axes) {
    const float own = out[static_cast<size_t>(axis)].scale;
    scale = policy == "not_larger" ? std::min(scale, own) : std::max(scale, own);
  }
  for (const int at : axes) {
    ResizeAxis& axis = out[static_cast<size_t>(at)];
    axis.scale = scale;
    axis.output = rounded_half_up(static_cast<double>(scale) * static_cast<double>(axis.input));
  }
  return out;
}

}  // namespace

ResizeAttributes::ResizeAttributes(const InstructionReader& c)
    : options{c.text("mode"),
              c.text("coordinate_transformation_mode"),
              c.text("nearest_mode"),
              c.boolean("antialias"),
              c.boolean("exclude_outside"),
              c.number("cubic_coeff_a")},
      axes(c.integers("axes")),
      policy(c.text("keep_aspect_ratio_policy")) {}

std::vector<ResizeAxis> resize_axes(const ResizeAttributes& attributes, const OpOrigin& origin,
                                    const OperandViews& c) {
  std::vector<ResizeAxis> axes = sized_axes(attributes, origin, c);
  const bool crops = attributes.options.coordinates == "tf_crop_and_resize";
  for (ResizeAxis& axis : axes) {
    axis.changes = axis.input != axis.output || axis.scale != 1 ||
                   (crops && (axis.roi_start != 0 || axis.roi_end != 1));
  }
  return axes;
}

ResizeTaps resize_taps(const ResizeOptions& options, const ResizeAxis& axis) {
  if (!axis.changes) {
    ResizeTaps same;
    same.index.resize(static_cast<size_t>(axis.output));
    std::iota(same.index.begin(), same.index.end(), 0);
    same.weight.assign(same.index.size(), 1);
    same.extrapolated.resize(same.index.size());
    return same;
  }
  ResizeTaps taps;
  const bool nearest = options.mode == "nearest";
  if (!nearest) {
    const double reach = options.mode == "cubic" ? 2 : 1;
    const double squeeze = options.antialias ? std::min<double>(axis.scale, 1) : 1;
    taps.width = 2 - 2 * (static_cast<int64_t>(std::floor(-reach / squeeze)) + 1);
  }
  const auto total = static_cast<size_t>(axis.output * taps.width);
  taps.index.resize(total);
  taps.weight.assign(total, 1);
  taps.extrapolated.resize(static_cast<size_t>(axis.output));
  for (int64_t i = 0; i < axis.output; ++i) {
    const float x = source_coordinate(options.coordinates, axis, i);
    taps.extrapolated[static_cast<size_t>(i)] =
        options.coordinates == "tf_crop_and_resize" &&
        !(x >= 0 && x <= static_cast<float>(axis.input - 1));
    const float place = bounded(x, axis.input);
    const size_t at = static_cast<size_t>(i * taps.width);
    const std::span<double> weights(taps.weight.data() + at, static_cast<size_t>(taps.width));
    const int64_t first = nearest ? nearest_index(options.nearest_mode, place)
                                  : weights_at(options, axis, place, weights);
    for (int64_t t = 0; t < taps.width; ++t) {
      const int64_t index = first + t;
      const bool outside = index < 0 || index >= axis.input;
      if (outside && options.exclude_outside && !nearest) weights[static_cast<size_t>(t)] = 0;
      taps.index[at + static_cast<size_t>(t)] = std::clamp<int64_t>(index, 0, axis.input - 1);
    }
    if (!nearest && (options.antialias || options.exclude_outside)) normalise(weights);
  }
  return taps;
}

}  // namespace lathe

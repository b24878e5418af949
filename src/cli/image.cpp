// SPDX-License-Identifier: MIT
#include "cli/image.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "ops/support/image.h"
#include "tensor/convert.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpeg = "\xff\xd8\xff";

// The axes of an image in a tensor; -1: none.
struct Axes {
  int channel = -1;
  int height = 0;
  int width = 0;
};

bool is_channels(int64_t size) { return size == 1 || size == 3 || size == 4; }

Axes find_axes(const Dims& shape, const ImageOptions& options, std::string_view origin) {
  const auto rank = static_cast<int>(shape.size());
  const std::string text = fmt::format("[{}]", fmt::join(shape, ", "));
  check(rank >= 2 && rank <= 4, ErrorKind::invalid_argument,
        "image '{}' cannot fill an input of shape {}: expected rank 2 to 4", escape(origin), text);
  check(rank < 4 || shape[0] == 1 || shape[0] == -1, ErrorKind::invalid_argument,
        "image '{}' cannot fill an input of shape {}: batch is {}, expected 1", escape(origin),
        text, shape[0]);
  if (rank == 2) return {-1, 0, 1};
  const int first = rank - 3;
  const Axes channels_first{first, first + 1, first + 2};
  const Axes channels_last{first + 2, first, first + 1};
  if (options.layout == "nchw") return channels_first;
  if (options.layout == "nhwc") return channels_last;
  const auto size = [&](int axis) { return shape[static_cast<size_t>(axis)]; };
  if (is_channels(size(first))) return channels_first;
  if (is_channels(size(first + 2))) return channels_last;
  check(size(first) == -1 || size(first + 2) == -1, ErrorKind::invalid_argument,
        "image '{}' cannot fill an input of shape {}: no axis has 1, 3 or 4 channels",
        escape(origin), text);
  return size(first) == -1 ? channels_first : channels_last;
}

struct FloatImage {
  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<float> pixels;  // [height, width, channels], 0 to 255
};

FloatImage decode(std::string_view bytes, std::string_view origin, int channels) {
  std::optional<Image> found = decode_image(bytes, origin);
  check(
      found.has_value(), ErrorKind::invalid_argument,
      "'{}' is not a valid PNG or JPEG image: its data is truncated, damaged or of an unsupported "
      "variant",
      escape(origin));
  const Image image = channels > 0 ? with_channels(std::move(*found), channels) : std::move(*found);
  return {image.width, image.height, image.channels, {image.samples.begin(), image.samples.end()}};
}

// Weights of consecutive source elements, starting at `first`, for one output element.
struct Tap {
  int first = 0;
  std::vector<float> weights;
};

std::vector<Tap> make_taps(int from, int to) {
  std::vector<Tap> taps(static_cast<size_t>(to));
  const double ratio = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    Tap& tap = taps[static_cast<size_t>(i)];
    if (from > to) {  // area of each source pixel under the output pixel
      const double begin = i * ratio;
      const double end = std::min<double>((i + 1) * ratio, from);
      tap.first = static_cast<int>(begin);
      for (int k = tap.first; k < from && k < end; ++k) {
        const double part = std::min(end, k + 1.0) - std::max(begin, static_cast<double>(k));
        tap.weights.push_back(static_cast<float>(part / (end - begin)));
      }
    } else {
      const double center = std::clamp((i + 0.5) * ratio - 0.5, 0.0, from - 1.0);
      tap.first = static_cast<int>(center);
      const auto part = static_cast<float>(center - tap.first);
      tap.weights.push_back(1.0f - part);
      if (part > 0) tap.weights.push_back(part);
    }
  }
  return taps;
}

FloatImage resize(const FloatImage& from, int width, int height) {
  const auto channels = static_cast<size_t>(from.channels);
  const auto row = static_cast<size_t>(from.width) * channels;
  const std::vector<Tap> columns = make_taps(from.width, width);
  const std::vector<Tap> rows = make_taps(from.height, height);
  FloatImage out{width, height, from.channels, {}};
  out.pixels.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * channels, 0.0f);
  std::vector<float> blended(row);
  float* target = out.pixels.data();
  for (const Tap& vertical : rows) {
    std::fill(blended.begin(), blended.end(), 0.0f);
    for (size_t k = 0; k < vertical.weights.size(); ++k) {
      const float* source = from.pixels.data() + (static_cast<size_t>(vertical.first) + k) * row;
      for (size_t i = 0; i < row; ++i) blended[i] += vertical.weights[k] * source[i];
    }
    for (const Tap& horizontal : columns) {
      const float* source = blended.data() + static_cast<size_t>(horizontal.first) * channels;
      for (size_t c = 0; c < channels; ++c) {
        for (size_t k = 0; k < horizontal.weights.size(); ++k) {
          target[c] += horizontal.weights[k] * source[k * channels + c];
        }
      }
      target += channels;
    }
  }
  return out;
}

double per_channel(const std::vector<double>& values, int channel, int channels, double fallback,
                   std::string_view flag) {
  if (values.empty()) return fallback;
  check(values.size() == 1 || values.size() == static_cast<size_t>(channels),
        ErrorKind::invalid_argument, "{} has {} values, expected 1 or one per channel ({})", flag,
        values.size(), channels);
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

// Normalises the pixels and writes them in the tensor's axis order.
Tensor to_tensor(const FloatImage& image, ElementType type, const Dims& dims, const Axes& axes,
                 const ImageOptions& options) {
  Tensor out(type, dims);
  const Dims& strides = out.strides();
  const auto stride = [&](int axis) { return axis < 0 ? 0 : strides[static_cast<size_t>(axis)]; };
  const double unit = is_integer(type) ? 1.0 : 1.0 / 255.0;
  for (int c = 0; c < image.channels; ++c) {
    const double scale = per_channel(options.scale, c, image.channels, unit, "--scale");
    const double mean = per_channel(options.mean, c, image.channels, 0.0, "--mean");
    const double deviation = per_channel(options.std, c, image.channels, 1.0, "--std");
    check(deviation != 0, ErrorKind::invalid_argument, "--std is {}, expected a value other than 0",
          deviation);
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const auto at = (int64_t{y} * image.width + x) * image.channels + c;
        const double pixel = image.pixels[static_cast<size_t>(at)];
        double value = (pixel * scale - mean) / deviation;
        if (is_integer(type)) value = std::nearbyint(value);
        store_double(type, out.data(),
                     c * stride(axes.channel) + y * stride(axes.height) + x * stride(axes.width),
                     value);
      }
    }
  }
  return out;
}

}  // namespace

bool looks_like_image(std::string_view bytes) {
  return bytes.starts_with(kPng) || bytes.starts_with(kJpeg);
}

Tensor read_image(std::string_view bytes, std::string_view origin, ElementType type,
                  const Dims& shape, const ImageOptions& options) {
  check(is_floating(type) || is_integer(type), ErrorKind::invalid_argument,
        "image '{}' cannot fill an input of {}, expected floats or integers", escape(origin),
        to_string(type));
  const Axes axes = find_axes(shape, options, origin);
  const auto size = [&](int axis) { return shape[static_cast<size_t>(axis)]; };
  const int64_t channels = axes.channel < 0 ? 1 : size(axes.channel);
  check(channels == -1 || is_channels(channels), ErrorKind::invalid_argument,
        "image '{}' cannot fill {} channels, expected 1, 3 or 4", escape(origin), channels);
  FloatImage image = decode(bytes, origin, static_cast<int>(std::max<int64_t>(channels, 0)));
  const int64_t height = size(axes.height) < 0 ? image.height : size(axes.height);
  const int64_t width = size(axes.width) < 0 ? image.width : size(axes.width);
  check(height > 0 && width > 0 && height <= kMaxPixels && width <= kMaxPixels &&
            height * width <= kMaxPixels,
        ErrorKind::invalid_argument,
        "image '{}' cannot be resized to {}x{}: expected 1 to {} pixels", escape(origin), width,
        height, kMaxPixels);
  if (height != image.height || width != image.width) {
    image = resize(image, static_cast<int>(width), static_cast<int>(height));
  }
  Dims dims(shape.size(), 1);
  if (axes.channel >= 0) dims[static_cast<size_t>(axes.channel)] = image.channels;
  dims[static_cast<size_t>(axes.height)] = height;
  dims[static_cast<size_t>(axes.width)] = width;
  return to_tensor(image, type, dims, axes, options);
}

}  // namespace lathe::cli

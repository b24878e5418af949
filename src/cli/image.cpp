// SPDX-License-Identifier: MIT
#include "cli/image.h"

#include <stb/stb_image.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpeg = "\xff\xd8\xff";
constexpr int64_t kMaxPixels = 50'000'000;

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

// Bounds the inflated size of a PNG's pixel data before stb_image inflates it.
void check_png_expansion(std::string_view bytes, std::string_view origin, uint64_t most) {
  z_stream stream{};
  check(inflateInit(&stream) == Z_OK, ErrorKind::out_of_memory, "out of memory for image '{}'",
        escape(origin));
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::array<unsigned char, 1 << 15> scratch{};
  size_t at = kPng.size();
  while (bytes.size() - at >= 12) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    const std::string_view type = bytes.substr(at + 4, 4);
    length = std::min(length, bytes.size() - at - 12);
    if (type == "IDAT") {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at + 8));
      stream.avail_in = static_cast<uInt>(length);
      while (stream.avail_in > 0) {
        stream.next_out = scratch.data();
        stream.avail_out = scratch.size();
        if (inflate(&stream, Z_NO_FLUSH) != Z_OK) return;  // end or error: stb_image decides
        check(stream.total_out <= most, ErrorKind::invalid_argument,
              "image '{}' inflates to more than the {} bytes of its pixels", escape(origin), most);
      }
    }
    at += length + 12;
  }
}

void check_size(int64_t width, int64_t height, std::string_view origin) {
  check(width > 0 && height > 0 && width <= kMaxPixels / height, ErrorKind::invalid_argument,
        "image '{}' is {}x{}, expected 1 to {} pixels", escape(origin), width, height, kMaxPixels);
}

// stb_image reports an image that is too large as corrupt, so check the size first.
void check_png_size(std::string_view bytes, std::string_view origin) {
  constexpr size_t kWidthAt = 16;
  const auto number = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  if (bytes.size() >= kWidthAt + 8) check_size(number(kWidthAt), number(kWidthAt + 4), origin);
}

void check_decoded(bool is_decoded, std::string_view origin) {
  check(
      is_decoded, ErrorKind::invalid_argument,
      "'{}' is not a valid PNG or JPEG image: its data is truncated, damaged or of an unsupported "
      "variant",
      escape(origin));
}

struct Image {
  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<float> pixels;  // [height, width, channels], 0 to 255
};

Image decode(std::string_view bytes, std::string_view origin, int channels) {
  check(bytes.size() < size_t{1} << 31, ErrorKind::invalid_argument,
        "image '{}' has {} bytes, expected less than 2 GiB", escape(origin), bytes.size());
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  if (bytes.starts_with(kPng)) check_png_size(bytes, origin);
  Image image;
  int found = 0;
  check_decoded(stbi_info_from_memory(data, size, &image.width, &image.height, &found) == 1,
                origin);
  const int64_t pixels = int64_t{image.width} * image.height;
  check_size(image.width, image.height, origin);
  if (bytes.starts_with(kPng)) {
    // At most 16 bits in 4 channels, a filter byte per row and interlacing pass.
    const uint64_t most =
        static_cast<uint64_t>(pixels) * 8 + static_cast<uint64_t>(image.height) * 16;
    check_png_expansion(bytes, origin, most + 1024);
  }
  image.channels = channels > 0 ? channels : (found == 2 ? 1 : found);
  const std::unique_ptr<stbi_uc, void (*)(void*)> decoded(
      stbi_load_from_memory(data, size, &image.width, &image.height, &found, image.channels),
      stbi_image_free);
  check_decoded(decoded != nullptr, origin);
  const auto count = static_cast<size_t>(pixels) * static_cast<size_t>(image.channels);
  image.pixels.assign(decoded.get(), decoded.get() + count);
  return image;
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

Image resize(const Image& from, int width, int height) {
  const auto channels = static_cast<size_t>(from.channels);
  const auto row = static_cast<size_t>(from.width) * channels;
  const std::vector<Tap> columns = make_taps(from.width, width);
  const std::vector<Tap> rows = make_taps(from.height, height);
  Image out{width, height, from.channels, {}};
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
Tensor to_tensor(const Image& image, ElementType type, const Dims& dims, const Axes& axes,
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
  Image image = decode(bytes, origin, static_cast<int>(std::max<int64_t>(channels, 0)));
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

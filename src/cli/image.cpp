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

// Where a picture's axes lie in a tensor's; -1: there is none.
struct Axes {
  int channel = -1;
  int height = 0;
  int width = 0;
};

bool is_channels(int64_t extent) { return extent == 1 || extent == 3 || extent == 4; }

Axes find_axes(const Dims& wanted, const ImageOptions& options, std::string_view origin) {
  const auto rank = static_cast<int>(wanted.size());
  const std::string shape = fmt::format("[{}]", fmt::join(wanted, ", "));
  check(rank >= 2 && rank <= 4, ErrorKind::invalid_argument,
        "picture '{}' cannot fill an input of extents {}: expected 2 to 4 of them", escape(origin),
        shape);
  check(rank < 4 || wanted[0] == 1 || wanted[0] == -1, ErrorKind::invalid_argument,
        "picture '{}' cannot fill an input of extents {}: that is a batch of {}", escape(origin),
        shape, wanted[0]);
  if (rank == 2) return {-1, 0, 1};
  const int first = rank - 3;
  const Axes channels_first{first, first + 1, first + 2};
  const Axes channels_last{first + 2, first, first + 1};
  if (options.layout == "nchw") return channels_first;
  if (options.layout == "nhwc") return channels_last;
  const auto extent = [&](int axis) { return wanted[static_cast<size_t>(axis)]; };
  if (is_channels(extent(first))) return channels_first;
  if (is_channels(extent(first + 2))) return channels_last;
  check(extent(first) == -1 || extent(first + 2) == -1, ErrorKind::invalid_argument,
        "picture '{}' cannot fill an input of extents {}: no axis has 1, 3 or 4 channels",
        escape(origin), shape);
  return extent(first) == -1 ? channels_first : channels_last;
}

// Bounds what inflating the pixel data of a PNG takes, before the decoder does it.
void check_png_expansion(std::string_view bytes, std::string_view origin, uint64_t most) {
  z_stream stream{};
  check(inflateInit(&stream) == Z_OK, ErrorKind::out_of_memory, "no memory to read picture '{}'",
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
        if (inflate(&stream, Z_NO_FLUSH) != Z_OK) return;  // ended, or the decoder will complain
        check(stream.total_out <= most, ErrorKind::invalid_argument,
              "picture '{}' inflates to more than the {} bytes of its pixels", escape(origin),
              most);
      }
    }
    at += length + 12;
  }
}

void check_size(int64_t width, int64_t height, std::string_view origin) {
  check(width > 0 && height > 0 && width <= kMaxPixels / height, ErrorKind::invalid_argument,
        "picture '{}' is {}x{}, expected at most {} pixels", escape(origin), width, height,
        kMaxPixels);
}

// The decoder says no more of a picture that is too wide for it than that it is none.
void check_png_size(std::string_view bytes, std::string_view origin) {
  constexpr size_t kWidthAt = 16;
  const auto number = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  if (bytes.size() >= kWidthAt + 8) check_size(number(kWidthAt), number(kWidthAt + 4), origin);
}

struct Picture {
  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<float> pixels;  // rows of pixels of channels, 0 to 255
};

Picture decode(std::string_view bytes, std::string_view origin, int channels) {
  check(bytes.size() < size_t{1} << 31, ErrorKind::invalid_argument,
        "picture '{}' has {} bytes, at most 2 GiB can be read", escape(origin), bytes.size());
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  if (bytes.starts_with(kPng)) check_png_size(bytes, origin);
  Picture picture;
  int found = 0;
  check(stbi_info_from_memory(data, size, &picture.width, &picture.height, &found) == 1,
        ErrorKind::invalid_argument, "'{}' is no readable PNG or JPEG picture: {}", escape(origin),
        stbi_failure_reason());
  const int64_t pixels = int64_t{picture.width} * picture.height;
  check_size(picture.width, picture.height, origin);
  if (bytes.starts_with(kPng)) {
    // At most 16 bits in 4 channels, a filter byte per row, seven interlaced passes.
    const uint64_t most =
        static_cast<uint64_t>(pixels) * 8 + static_cast<uint64_t>(picture.height) * 16;
    check_png_expansion(bytes, origin, most + 1024);
  }
  picture.channels = channels > 0 ? channels : (found == 2 ? 1 : found);
  const std::unique_ptr<stbi_uc, void (*)(void*)> decoded(
      stbi_load_from_memory(data, size, &picture.width, &picture.height, &found, picture.channels),
      stbi_image_free);
  check(decoded != nullptr, ErrorKind::invalid_argument,
        "'{}' is no readable PNG or JPEG picture: {}", escape(origin), stbi_failure_reason());
  const auto count = static_cast<size_t>(pixels) * static_cast<size_t>(picture.channels);
  picture.pixels.assign(decoded.get(), decoded.get() + count);
  return picture;
}

// One output element along an axis: a weighted sum of `count` neighbours from `first` on.
struct Tap {
  int first = 0;
  std::vector<float> weights;
};

std::vector<Tap> make_taps(int from, int to) {
  std::vector<Tap> taps(static_cast<size_t>(to));
  const double ratio = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    Tap& tap = taps[static_cast<size_t>(i)];
    if (from > to) {  // the part of each source pixel that lies under this one
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

Picture resize(const Picture& from, int width, int height) {
  const auto channels = static_cast<size_t>(from.channels);
  const auto row = static_cast<size_t>(from.width) * channels;
  const std::vector<Tap> columns = make_taps(from.width, width);
  const std::vector<Tap> rows = make_taps(from.height, height);
  Picture out{width, height, from.channels, {}};
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
        ErrorKind::invalid_argument, "{} has {} numbers, expected one or one per channel ({})",
        flag, values.size(), channels);
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

// Normalises and lays out the pixels.
Tensor to_tensor(const Picture& picture, ElementType type, const Dims& dims, const Axes& axes,
                 const ImageOptions& options) {
  Tensor out(type, dims);
  const Dims& strides = out.strides();
  const auto stride = [&](int axis) { return axis < 0 ? 0 : strides[static_cast<size_t>(axis)]; };
  const double unit = is_integer(type) ? 1.0 : 1.0 / 255.0;
  for (int c = 0; c < picture.channels; ++c) {
    const double scale = per_channel(options.scale, c, picture.channels, unit, "--scale");
    const double mean = per_channel(options.mean, c, picture.channels, 0.0, "--mean");
    const double deviation = per_channel(options.std, c, picture.channels, 1.0, "--std");
    check(deviation != 0, ErrorKind::invalid_argument, "--std is {}, expected another number",
          deviation);
    for (int y = 0; y < picture.height; ++y) {
      for (int x = 0; x < picture.width; ++x) {
        const auto at = (int64_t{y} * picture.width + x) * picture.channels + c;
        const double pixel = picture.pixels[static_cast<size_t>(at)];
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
                  const Dims& wanted, const ImageOptions& options) {
  check(is_floating(type) || is_integer(type), ErrorKind::invalid_argument,
        "picture '{}' cannot fill an input of {}, expected floats or integers", escape(origin),
        to_string(type));
  const Axes axes = find_axes(wanted, options, origin);
  const auto extent = [&](int axis) { return wanted[static_cast<size_t>(axis)]; };
  const int64_t channels = axes.channel < 0 ? 1 : extent(axes.channel);
  check(channels == -1 || is_channels(channels), ErrorKind::invalid_argument,
        "picture '{}' cannot fill {} channels, expected 1, 3 or 4", escape(origin), channels);
  Picture picture = decode(bytes, origin, static_cast<int>(std::max<int64_t>(channels, 0)));
  const int64_t height = extent(axes.height) < 0 ? picture.height : extent(axes.height);
  const int64_t width = extent(axes.width) < 0 ? picture.width : extent(axes.width);
  check(height > 0 && width > 0 && height <= kMaxPixels && width <= kMaxPixels &&
            height * width <= kMaxPixels,
        ErrorKind::invalid_argument, "picture '{}' cannot become {}x{}: expected 1 to {} pixels",
        escape(origin), width, height, kMaxPixels);
  if (height != picture.height || width != picture.width) {
    picture = resize(picture, static_cast<int>(width), static_cast<int>(height));
  }
  Dims dims(wanted.size(), 1);
  if (axes.channel >= 0) dims[static_cast<size_t>(axes.channel)] = picture.channels;
  dims[static_cast<size_t>(axes.height)] = height;
  dims[static_cast<size_t>(axes.width)] = width;
  return to_tensor(picture, type, dims, axes, options);
}

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
#include "ops/support/image.h"

#include <stb/stb_image.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"

namespace lathe {
namespace {

constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";

bool is_pnm(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6';
}

// Whether no chunk of a PNG exceeds the file and its pixel data ends: stb_image reserves the stated
// length of a chunk before it reads it, and inflates without a bound.
bool has_whole_data(std::string_view bytes, std::string_view origin, uint64_t most) {
  z_stream stream{};
  check(inflateInit2(&stream, -MAX_WBITS) == Z_OK, ErrorKind::out_of_memory,
        "out of memory for image '{}'", escape(origin));
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::array<unsigned char, 1 << 15> scratch{};
  size_t header = 2;  // bytes of zlib's header, which stb_image checks, but not its checksum
  int state = Z_OK;
  size_t at = kPng.size();
  while (bytes.size() - at >= 12) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    const std::string_view type = bytes.substr(at + 4, 4);
    if (length > bytes.size() - at - 12 || type == "CgBI") return false;  // Apple's other format
    if (type == "IEND") break;
    if (type == "IDAT") {
      const size_t skipped = std::min(header, length);
      header -= skipped;
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at + 8 + skipped));
      stream.avail_in = static_cast<uInt>(length - skipped);
      while (state == Z_OK && stream.avail_in > 0) {
        stream.next_out = scratch.data();
        stream.avail_out = scratch.size();
        state = inflate(&stream, Z_NO_FLUSH);
        check(stream.total_out <= most, ErrorKind::invalid_argument,
              "image '{}' inflates to more than the {} bytes of its pixels", escape(origin), most);
      }
    }
    at += length + 12;
  }
  return state == Z_STREAM_END;
}

// stb_image reports an image that is too large as corrupt, so check the size first.
void check_png_size(std::string_view bytes, std::string_view origin) {
  constexpr size_t kWidthAt = 16;
  const auto number = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  if (bytes.size() >= kWidthAt + 8) {
    check_image_size(number(kWidthAt), number(kWidthAt + 4), origin);
  }
}

// PNG, BMP, PGM and PPM.
std::optional<Image> decode_with_stb(std::string_view bytes, std::string_view origin) {
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  if (bytes.starts_with(kPng)) check_png_size(bytes, origin);
  Image image;
  int found = 0;
  if (stbi_info_from_memory(data, size, &image.width, &image.height, &found) != 1) return {};
  check_image_size(image.width, image.height, origin);
  if (bytes.starts_with(kPng)) {
    // At most 16 bits in 4 channels, a filter byte per row and interlacing pass.
    const uint64_t most =
        static_cast<uint64_t>(image.width) * static_cast<uint64_t>(image.height) * 8 +
        static_cast<uint64_t>(image.height) * 16;
    if (!has_whole_data(bytes, origin, most + 1024)) return {};
  }
  image.channels = found == 2 ? 1 : found;
  const std::unique_ptr<stbi_uc, void (*)(void*)> decoded(
      stbi_load_from_memory(data, size, &image.width, &image.height, &found, image.channels),
      stbi_image_free);
  if (decoded == nullptr) return {};
  const auto pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  image.samples.assign(decoded.get(), decoded.get() + pixels * static_cast<size_t>(image.channels));
  return image;
}

// PBM (P4 packs eight pixels, P1 is text; 1 is black) and the textual PGM and PPM (P2, P3).
class PnmReader {
 public:
  explicit PnmReader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<Image> read(std::string_view origin) {
    const char kind = bytes_[1];
    const int64_t width = number(7);
    const int64_t height = number(7);
    const bool is_bitmap = kind == '1' || kind == '4';
    const int64_t most = is_bitmap ? 1 : number(5);
    if (width < 0 || height < 0 || most < 1 || most > 65535) return {};
    check_image_size(width, height, origin);
    Image image{static_cast<int>(height), static_cast<int>(width), kind == '3' ? 3 : 1, {}};
    const auto count = static_cast<size_t>(width * height * image.channels);
    if (kind != '4' && (bytes_.size() - at_) < count) return {};  // at least a digit each
    image.samples.resize(count);
    if (kind == '4') return read_bits(std::move(image));
    for (uint8_t& sample : image.samples) {
      const int64_t value = number(is_bitmap ? 1 : 5);
      if (value < 0 || value > most) return {};
      sample =
          static_cast<uint8_t>(is_bitmap ? 255 - value * 255 : (value * 255 + most / 2) / most);
    }
    return image;
  }

 private:
  std::optional<Image> read_bits(Image image) {
    const size_t row = (static_cast<size_t>(image.width) + 7) / 8;
    ++at_;  // one space ends the header
    if (at_ > bytes_.size() || (bytes_.size() - at_) / row < static_cast<size_t>(image.height))
      return {};
    for (size_t i = 0; i < image.samples.size(); ++i) {
      const size_t x = i % static_cast<size_t>(image.width);
      const size_t y = i / static_cast<size_t>(image.width);
      const auto byte = static_cast<unsigned char>(bytes_[at_ + y * row + x / 8]);
      image.samples[i] = (byte >> (7 - x % 8) & 1) != 0 ? 0 : 255;
    }
    return image;
  }

  // The next number of at most `digits` digits, after spaces and comments; -1 if there is none.
  int64_t number(int digits) {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#') at_ = std::min(bytes_.find('\n', at_), bytes_.size());
      if (at_ < bytes_.size()) ++at_;
    }
    int64_t value = -1;
    for (; digits > 0 && at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9';
         --digits) {
      value = std::max<int64_t>(value, 0) * 10 + (bytes_[at_++] - '0');
    }
    return value;
  }
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  std::string_view bytes_;
  size_t at_ = 2;
};

}  // namespace

void check_image_size(int64_t width, int64_t height, std::string_view origin) {
  check(width > 0 && height > 0 && width <= kMaxPixels / height, ErrorKind::invalid_argument,
        "image '{}' is {}x{}, expected 1 to {} pixels", escape(origin), width, height, kMaxPixels);
}

std::optional<Image> decode_image(std::string_view bytes, std::string_view origin) {
  check(bytes.size() < size_t{1} << 31, ErrorKind::invalid_argument,
        "image '{}' has {} bytes, expected less than 2 GiB", escape(origin), bytes.size());
  const bool is_webp = bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP");
  const bool is_jpeg_2000 = bytes.starts_with(std::string_view("\0\0\0\x0cjP  ", 8)) ||
                            bytes.starts_with("\xff\x4f\xff\x51");
  check(!is_webp && !is_jpeg_2000, ErrorKind::unsupported,
        "image '{}' is a {} file: images are read from PNG, JPEG, BMP, TIFF and PNM",
        escape(origin), is_webp ? "WebP" : "JPEG 2000");
  if (bytes.starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, origin);
  if (bytes.starts_with("II*") || bytes.starts_with(std::string_view("MM\0*", 4))) {
    return decode_tiff(bytes, origin);
  }
  if (is_pnm(bytes) && bytes[1] < '5') return PnmReader(bytes).read(origin);
  if (bytes.starts_with(kPng) || bytes.starts_with("BM") || is_pnm(bytes)) {
    return decode_with_stb(bytes, origin);
  }
  return {};
}

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  const size_t pixels = image.samples.size() / static_cast<size_t>(image.channels);
  Image out{image.height, image.width, channels, {}};
  out.samples.reserve(pixels * static_cast<size_t>(channels));
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* from = image.samples.data() + i * static_cast<size_t>(image.channels);
    const bool is_grey = image.channels == 1;
    const uint32_t rgb[] = {from[0], is_grey ? from[0] : from[1], is_grey ? from[0] : from[2]};
    if (channels == 1) {
      // 0.299, 0.587 and 0.114 in 2^-16.
      const uint32_t luma = rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000;
      out.samples.push_back(static_cast<uint8_t>(luma >> 16));
    } else {
      for (const uint32_t value : rgb) out.samples.push_back(static_cast<uint8_t>(value));
      if (channels == 4) out.samples.push_back(255);
    }
  }
  return out;
}

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include <zlib.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "ops/support/image.h"

namespace lathe {
namespace {

using Bytes = std::vector<uint8_t>;

// Tags of TIFF 6.0.
enum TiffTag : uint16_t {
  kWidth = 256,
  kHeight = 257,
  kBitsPerSample = 258,
  kCompression = 259,
  kPhotometric = 262,
  kFillOrder = 266,
  kStripOffsets = 273,
  kSamplesPerPixel = 277,
  kRowsPerStrip = 278,
  kStripByteCounts = 279,
  kPlanarConfiguration = 284,
  kPredictor = 317,
  kColorMap = 320,
  kTileWidth = 322,
  kTileLength = 323,
  kTileOffsets = 324,
  kTileByteCounts = 325,
  kSampleFormat = 339,
};
enum Photometric { kWhiteIsZero = 0, kBlackIsZero = 1, kRgb = 2, kPalette = 3 };

// The first directory of a file: integers by tag.
class TiffDirectory {
 public:
  explicit TiffDirectory(std::string_view bytes) : bytes_(bytes), is_little_(bytes[0] == 'I') {
    const uint64_t at = number(4, 4);
    const uint64_t entries = number(at, 2);
    for (uint64_t i = 0; i < entries; ++i) read_entry(at + 2 + i * 12);
  }

  uint64_t value(TiffTag tag, uint64_t fallback) const {
    const auto found = values_.find(tag);
    return found == values_.end() || found->second.empty() ? fallback : found->second[0];
  }
  const std::vector<uint64_t>& values(TiffTag tag) const {
    static const std::vector<uint64_t> none;
    const auto found = values_.find(tag);
    return found == values_.end() ? none : found->second;
  }
  bool is_little() const { return is_little_; }

 private:
  void read_entry(uint64_t at) {
    constexpr std::array<uint64_t, 5> kSizes{0, 1, 0, 2, 4};  // BYTE, SHORT, LONG
    const uint64_t type = number(at + 2, 2);
    const uint64_t size = type < kSizes.size() ? kSizes[type] : 0;
    const uint64_t count = number(at + 4, 4);
    if (size == 0 || count > bytes_.size() / size) return;
    const uint64_t from = count * size > 4 ? number(at + 8, 4) : at + 8;
    if (from > bytes_.size() || count > (bytes_.size() - from) / size) return;
    std::vector<uint64_t>& values = values_[static_cast<uint16_t>(number(at, 2))];
    if (!values.empty()) return;  // tags are unique; memory stays a small multiple of the file
    for (uint64_t i = 0; i < count; ++i) values.push_back(number(from + i * size, size));
  }
  // Zero outside of the file.
  uint64_t number(uint64_t at, uint64_t size) const {
    uint64_t value = 0;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t place = at + (is_little_ ? size - 1 - i : i);
      value = value << 8 | (place < bytes_.size() ? static_cast<unsigned char>(bytes_[place]) : 0U);
    }
    return value;
  }

  std::string_view bytes_;
  bool is_little_;
  std::map<uint16_t, std::vector<uint64_t>> values_;
};

// Each of these fills `out`, or as much of it as the data holds, and returns how much.
size_t unpack_bits(std::string_view data, Bytes& out) {
  size_t filled = 0;
  for (size_t at = 0; at + 1 < data.size() && filled < out.size();) {
    const auto head = static_cast<signed char>(data[at++]);
    if (head == -128) continue;
    const size_t count = std::min<size_t>(head < 0 ? 1 - head : 1 + head, out.size() - filled);
    for (size_t i = 0; i < count; ++i) {
      if (head >= 0 && at >= data.size()) return filled;
      out[filled++] = static_cast<uint8_t>(data[head < 0 ? at : at++]);
    }
    if (head < 0) ++at;
  }
  return filled;
}

size_t inflate_all(std::string_view data, Bytes& out) {
  auto filled = static_cast<uLongf>(out.size());
  const int status = uncompress(out.data(), &filled, reinterpret_cast<const Bytef*>(data.data()),
                                static_cast<uLong>(data.size()));
  return status == Z_OK || status == Z_BUF_ERROR ? filled : 0;
}

// Codes of 9 to 12 bits, most significant bit first; each new code is the last string and a byte.
size_t expand_lzw(std::string_view data, Bytes& out) {
  constexpr uint32_t kClear = 256, kEnd = 257, kFirst = 258, kCodes = 4096;
  std::array<uint16_t, kCodes> before{};
  std::array<uint16_t, kCodes> length{};
  std::array<uint8_t, kCodes> last{};
  for (uint32_t i = 0; i < 256; ++i) length[i] = 1, last[i] = static_cast<uint8_t>(i);
  uint32_t next = kFirst, width = 9, buffer = 0, bits = 0, old = kEnd;
  size_t filled = 0;
  const auto write = [&](uint32_t code) {
    const size_t end = filled + length[code];
    for (size_t at = end; at > filled; code = before[code]) {
      if (--at < out.size()) out[at] = last[code];
    }
    filled = std::min(end, out.size());
  };
  const auto first_of = [&](uint32_t code) {
    while (length[code] > 1) code = before[code];
    return last[code];
  };
  for (const char c : data) {
    buffer = buffer << 8 | static_cast<unsigned char>(c);
    bits += 8;
    if (bits < width) continue;
    bits -= width;
    const uint32_t code = buffer >> bits & ((1U << width) - 1);
    if (code == kEnd || filled == out.size()) break;
    if (code == kClear) {
      next = kFirst, width = 9, old = kEnd;
      continue;
    }
    if (code > next || (old == kEnd && code > 255)) return filled;
    if (old != kEnd && next < kCodes) {
      before[next] = static_cast<uint16_t>(old);
      length[next] = static_cast<uint16_t>(length[old] + 1);
      last[next++] = first_of(code == next ? old : code);
    }
    if (code >= next) return filled;
    write(code);
    old = code;
    // A reader knows one code less than the writer, who changes the width one code early.
    if (next + 1 >= 1U << width && width < 12) ++width;
  }
  return filled;
}

class TiffReader {
 public:
  TiffReader(std::string_view bytes, std::string_view origin)
      : bytes_(bytes), origin_(origin), tags_(bytes) {
    width_ = tags_.value(kWidth, 0);
    height_ = tags_.value(kHeight, 0);
    samples_ = tags_.value(kSamplesPerPixel, 1);
    bits_ = tags_.value(kBitsPerSample, 1);
    photometric_ = tags_.value(kPhotometric, kBlackIsZero);
    is_planar_ = tags_.value(kPlanarConfiguration, 1) == 2;
    is_tiled_ = !tags_.values(kTileOffsets).empty();
    block_width_ = is_tiled_ ? tags_.value(kTileWidth, 0) : width_;
    block_height_ = is_tiled_ ? tags_.value(kTileLength, 0)
                              : std::min(tags_.value(kRowsPerStrip, height_), height_);
  }

  std::optional<Image> read() {
    if (width_ == 0 || height_ == 0) return {};
    check_image_size(static_cast<int64_t>(width_), static_cast<int64_t>(height_), origin_);
    refuse_rare_kinds();
    const uint64_t wanted = photometric_ == kRgb ? 3 : 1;
    if (samples_ < wanted || block_width_ == 0 || block_height_ == 0) return {};
    Image image{static_cast<int>(height_),
                static_cast<int>(width_),
                photometric_ == kBlackIsZero || photometric_ == kWhiteIsZero ? 1 : 3,
                {}};
    image.samples.resize(width_ * height_ * static_cast<size_t>(image.channels));
    const uint64_t across = (width_ - 1) / block_width_ + 1;
    const uint64_t down = (height_ - 1) / block_height_ + 1;
    for (uint64_t plane = 0; plane < (is_planar_ ? wanted : 1); ++plane) {
      for (uint64_t i = 0; i < across * down; ++i) {
        if (!read_block(plane * across * down + i)) return {};
        copy_block(image, i % across * block_width_, i / across * block_height_, plane);
      }
    }
    return image;
  }

 private:
  void refuse_rare_kinds() const {
    const auto refuse = [&](bool is_known, std::string_view what, uint64_t value) {
      check(is_known, ErrorKind::unsupported, "TIFF image '{}' has {} {}, which is not read",
            escape(origin_), what, value);
    };
    const uint64_t method = tags_.value(kCompression, 1);
    refuse(method == 1 || method == 5 || method == 8 || method == 32773 || method == 32946,
           "compression", method);
    refuse(photometric_ <= kPalette, "photometric interpretation", photometric_);
    refuse(bits_ == 1 || bits_ == 2 || bits_ == 4 || bits_ == 8 || bits_ == 16, "bits per sample",
           bits_);
    for (const uint64_t bits : tags_.values(kBitsPerSample)) {
      refuse(bits == bits_, "different bits per sample:", bits);
    }
    refuse(samples_ <= 16, "samples per pixel", samples_);
    refuse(tags_.value(kFillOrder, 1) == 1, "fill order", tags_.value(kFillOrder, 1));
    refuse(tags_.value(kSampleFormat, 1) == 1, "sample format", tags_.value(kSampleFormat, 1));
    const uint64_t predictor = tags_.value(kPredictor, 1);
    refuse(predictor == 1 || (predictor == 2 && bits_ >= 8), "predictor", predictor);
    refuse(block_width_ <= uint64_t{kMaxPixels} / std::max<uint64_t>(block_height_, 1),
           "tiles of width", block_width_);
  }

  uint64_t samples_per_block() const { return is_planar_ ? 1 : samples_; }
  uint64_t row_bytes() const { return (block_width_ * samples_per_block() * bits_ + 7) / 8; }

  // Fills block_ with the bytes of a strip or tile.
  bool read_block(uint64_t index) {
    const auto& offsets = tags_.values(is_tiled_ ? kTileOffsets : kStripOffsets);
    const auto& sizes = tags_.values(is_tiled_ ? kTileByteCounts : kStripByteCounts);
    if (index >= offsets.size() || index >= sizes.size()) return false;
    if (offsets[index] > bytes_.size() || sizes[index] > bytes_.size() - offsets[index])
      return false;
    const std::string_view data = bytes_.substr(offsets[index], sizes[index]);
    const uint64_t strips = (height_ - 1) / block_height_ + 1;
    const uint64_t rows = !is_tiled_ && index % strips == strips - 1
                              ? height_ - (strips - 1) * block_height_
                              : block_height_;
    block_.resize(rows * row_bytes());
    if (!expand(data)) return false;
    if (tags_.value(kPredictor, 1) == 2) undo_differences(rows);
    return true;
  }

  bool expand(std::string_view data) {
    switch (tags_.value(kCompression, 1)) {
      case 1:
        if (data.size() < block_.size()) return false;
        std::copy_n(data.begin(), block_.size(), block_.begin());
        return true;
      case 5:
        return expand_lzw(data, block_) == block_.size();
      case 32773:
        return unpack_bits(data, block_) == block_.size();
      default:
        return inflate_all(data, block_) == block_.size();
    }
  }

  // Predictor 2: each sample is the difference from that of the pixel to the left.
  void undo_differences(uint64_t rows) {
    const uint64_t step = samples_per_block();
    for (uint64_t y = 0; y < rows; ++y) {
      uint8_t* row = block_.data() + y * row_bytes();
      for (uint64_t i = step; i < block_width_ * step; ++i) {
        if (bits_ == 8) {
          row[i] = static_cast<uint8_t>(row[i] + row[i - step]);
        } else {
          const uint32_t sum = sample16(row, i) + sample16(row, i - step);
          row[i * 2 + (tags_.is_little() ? 0 : 1)] = static_cast<uint8_t>(sum);
          row[i * 2 + (tags_.is_little() ? 1 : 0)] = static_cast<uint8_t>(sum >> 8);
        }
      }
    }
  }

  uint32_t sample16(const uint8_t* row, uint64_t i) const {
    return tags_.is_little() ? row[i * 2] | row[i * 2 + 1] << 8 : row[i * 2] << 8 | row[i * 2 + 1];
  }
  uint32_t sample(const uint8_t* row, uint64_t i) const {
    if (bits_ == 16) return sample16(row, i);
    const uint64_t bit = i * bits_;
    return row[bit / 8] >> (8 - bits_ - bit % 8) & ((1U << bits_) - 1);
  }

  void copy_block(Image& image, uint64_t left, uint64_t top, uint64_t plane) const {
    const uint64_t rows = std::min(block_.size() / row_bytes(), height_ - top);
    const uint64_t columns = std::min(block_width_, width_ - left);
    const auto channels = static_cast<uint64_t>(image.channels);
    for (uint64_t y = 0; y < rows; ++y) {
      const uint8_t* row = block_.data() + y * row_bytes();
      for (uint64_t x = 0; x < columns; ++x) {
        uint8_t* pixel = image.samples.data() + ((top + y) * width_ + left + x) * channels;
        const uint64_t first = x * samples_per_block();
        if (photometric_ == kPalette) {
          for (uint64_t c = 0; c < 3; ++c) pixel[c] = color(sample(row, first), c);
        } else if (is_planar_) {
          pixel[plane] = scaled(sample(row, first));
        } else {
          for (uint64_t c = 0; c < channels; ++c) pixel[c] = scaled(sample(row, first + c));
        }
      }
    }
  }

  uint8_t scaled(uint32_t value) const {
    const uint32_t most = (1U << bits_) - 1;
    if (photometric_ == kWhiteIsZero) value = most - value;
    return static_cast<uint8_t>(bits_ == 16 ? value >> 8 : value * 255 / most);
  }
  // The map holds all 16-bit reds, then greens, then blues.
  uint8_t color(uint32_t value, uint64_t channel) const {
    const auto& map = tags_.values(kColorMap);
    const uint64_t at = (channel << bits_) + value;
    return static_cast<uint8_t>(at < map.size() ? map[at] >> 8 : 0);
  }

  std::string_view bytes_;
  std::string_view origin_;
  TiffDirectory tags_;
  uint64_t width_, height_, samples_, bits_, photometric_, block_width_, block_height_;
  bool is_planar_, is_tiled_;
  Bytes block_;
};

}  // namespace

std::optional<Image> decode_tiff(std::string_view bytes, std::string_view origin) {
  return bytes.size() < 8 ? std::nullopt : TiffReader(bytes, origin).read();
}

}  // namespace lathe

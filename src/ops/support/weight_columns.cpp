// SPDX-License-Identifier: MIT
#include "ops/support/weight_columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace lathe {
namespace {

constexpr int kMiddle = 128;  // zero point of 8 bits

// code = 128 + round(w · (127 / max|w|)), scale = max|w| / 127, for 16 columns [block][16].
void quantise_to_8_bits(const float* values, int64_t block, uint8_t* codes, float* scales) {
  constexpr float kShift = 12582912;  // 1.5 · 2^23: adding it rounds half to even
  float largest[kFitColumns] = {}, factor[kFitColumns];
  for (int64_t i = 0; i < block; ++i) {
    for (int64_t c = 0; c < kFitColumns; ++c) {
      largest[c] = std::max(largest[c], std::abs(values[i * kFitColumns + c]));
    }
  }
  for (int64_t c = 0; c < kFitColumns; ++c) {
    factor[c] = largest[c] > 0 ? 127 / largest[c] : 0;
    scales[c] = largest[c] / 127;
  }
  for (int64_t i = 0; i < block * kFitColumns; i += kFitColumns) {
    for (int64_t c = 0; c < kFitColumns; ++c) {
      const float code = (values[i + c] * factor[c] + kShift) - kShift;
      const float inside = code >= -127 ? std::min(code, 127.0F) : -127.0F;
      codes[i + c] = static_cast<uint8_t>(kMiddle + static_cast<int>(inside));
    }
  }
}

// As convert() to f32 of floats at any address.
void widen(float* to, ElementType type, const std::byte* from, int64_t count) {
  alignas(8) std::byte part[512];
  const int64_t size = bytes_for(type, 1);
  if (reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(size) == 0) {
    return convert(ElementType::f32, to, type, from, count);
  }
  for (const int64_t most = std::ssize(part) / size; count > 0;) {
    const int64_t now = std::min(count, most);
    std::memcpy(part, from, static_cast<size_t>(now * size));
    convert(ElementType::f32, to, type, part, now);
    from += now * size;
    to += now;
    count -= now;
  }
}

// Codes of column c of a block, in the order of matmul_n_bits.
void store_codes(const uint8_t* codes, int64_t c, int64_t block, int bits, uint8_t* to) {
  if (bits == 8) {
    for (int64_t i = 0; i < block; ++i) to[i] = codes[i * kFitColumns + c];
    return;
  }
  for (int64_t i = 0; i < block; i += 2) {
    to[i / 2] =
        static_cast<uint8_t>(codes[i * kFitColumns + c] | codes[(i + 1) * kFitColumns + c] << 4);
  }
}

}  // namespace

WeightColumns::WeightColumns(const TensorView& blocks, const BlockFormat& format)
    : source_(blocks), format_(&format) {
  const SplitForm split(format);
  form_.columns = blocks.dims[0];
  form_.inputs = blocks.dims[1] / format.bytes * format.elements;
  form_.block = format.group;
  form_.blocks = form_.inputs / format.group;
  form_.bits = split.bits;
  form_.scale_type = split.scale_type;
  form_.has_zeros = format.has_minimum;
  const bool has_f16_scales = form_.scale_type == ElementType::f16;
  const bool smaller = format.has_byte_scales || format.has_minimum || form_.bits != format.bits;
  if (smaller && (format.has_byte_scales || has_f16_scales)) {
    compact_ = CompactForm{format.bits, static_cast<int>(format.group), format.has_byte_scales,
                           format.has_minimum, format.levels != nullptr};
  }
}

WeightColumns::WeightColumns(const TensorView& floats, bool transposed, int64_t block, int bits,
                             bool symmetric, FitBlock fit)
    : source_(floats), transposed_(transposed), fit_(fit) {
  form_.columns = floats.dims[transposed ? 0 : 1];
  form_.inputs = floats.dims[transposed ? 1 : 0];
  form_.block = block;
  form_.blocks = (form_.inputs + block - 1) / block;
  form_.bits = bits;
  form_.symmetric = symmetric;
  form_.has_zeros = bits == 4 && !symmetric;
  if (bits == 4) form_.scale_type = ElementType::f16;
  if (form_.has_zeros && block == 32) {
    compact_ = CompactForm{.bits = bits, .block = 32, .minimums = true};
  }
}

WeightColumns columns_of(const InstructionReader& quantize_blocks, const TensorView& weights,
                         FitBlock fit) {
  if (weights.type == ElementType::u8) {
    return {weights, *find_block_format(quantize_blocks.text("type"))};
  }
  return {weights,
          quantize_blocks.boolean("transposed"),
          quantize_blocks.integer("block_size"),
          static_cast<int>(quantize_blocks.integer("bits")),
          quantize_blocks.boolean("symmetric"),
          fit};
}

int64_t WeightColumns::compact_bytes() const {
  const CompactForm& f = *compact_;
  const int64_t elements = form_.columns * form_.blocks * form_.block;
  const int64_t scales =
      f.byte_scales ? elements / f.block + 2 * (elements / kMaxBlock) : 2 * (elements / f.block);
  return elements * f.bits / 8 + (f.minimums ? 2 : 1) * scales;
}

void WeightColumns::make(int64_t first, int64_t count, uint8_t* codes, void* scales,
                         float* zeros) const {
  if (format_ != nullptr) return split(first, count, codes, scales, zeros);
  quantise(first, count, codes, scales, zeros);
}

void WeightColumns::split(int64_t first, int64_t count, uint8_t* codes, void* scales,
                          float* zeros) const {
  const int64_t row_bytes = source_.dims[1];
  std::vector<float> row(static_cast<size_t>(form_.blocks));
  for (int64_t c = 0; c < count; ++c) {
    split_blocks(*format_, source_.as<uint8_t>() + (first + c) * row_bytes,
                 row_bytes / format_->bytes, codes + c * form_.code_bytes(), row.data(),
                 form_.has_zeros ? zeros + c * form_.blocks : nullptr);
    convert(form_.scale_type,
            static_cast<uint8_t*>(scales) + c * bytes_for(form_.scale_type, form_.blocks),
            ElementType::f32, row.data(), form_.blocks);
  }
}

void WeightColumns::make_compact(int64_t first, int64_t count, const CompactColumns& to) const {
  if (format_ == nullptr) return quantise_compact(first, count, to);
  for (int64_t c = 0; c < count; ++c) split_compact(first + c, c, to);
}

void WeightColumns::split_compact(int64_t column, int64_t at, const CompactColumns& to) const {
  const BlockFormat& f = *format_;
  const int64_t row_bytes = source_.dims[1], groups = f.elements / f.group;
  const auto* block = source_.as<uint8_t>() + column * row_bytes;
  uint8_t* codes = to.codes + at * form_.inputs;
  BlockParts parts{};
  for (int64_t b = 0; b < row_bytes / f.bytes; ++b, block += f.bytes, codes += f.elements) {
    f.split(block, parts);
    std::memcpy(codes, parts.codes, static_cast<size_t>(f.elements));
    const int64_t place = at * form_.blocks + b * groups;
    if (f.has_byte_scales) {
      const auto size = static_cast<size_t>(groups);
      std::memcpy(static_cast<int8_t*>(to.scales) + place, parts.byte_scales, size);
      to.factors[at * form_.inputs / kMaxBlock + b] = parts.factor;
      if (!f.has_minimum) continue;
      std::memcpy(static_cast<int8_t*>(to.minimums) + place, parts.byte_minimums, size);
      to.minimum_factors[at * form_.inputs / kMaxBlock + b] = parts.minimum_factor;
      continue;
    }
    static_cast<uint16_t*>(to.scales)[place] = parts.factor;
    if (f.has_minimum) static_cast<uint16_t*>(to.minimums)[place] = parts.minimum_factor;
  }
}

template <class Use>
void WeightColumns::quantise_strip(int64_t first, int64_t width, std::vector<float>& strip,
                                   const Use& use) const {
  const int64_t block = form_.block, k = form_.inputs;
  const int64_t size = bytes_for(source_.type, 1);
  const auto* from = source_.as<std::byte>();
  strip.resize(static_cast<size_t>(form_.blocks * block * kFitColumns));
  if (width < kFitColumns || k < form_.blocks * block) std::ranges::fill(strip, 0.0F);
  std::array<float, 256> part;
  for (int64_t c = 0; transposed_ && c < width; ++c) {
    for (int64_t begin = 0; begin < k; begin += std::ssize(part)) {
      const int64_t count = std::min<int64_t>(std::ssize(part), k - begin);
      widen(part.data(), source_.type, from + ((first + c) * k + begin) * size, count);
      float* to = strip.data() + begin * kFitColumns + c;
      for (int64_t i = 0; i < count; ++i) to[i * kFitColumns] = part[static_cast<size_t>(i)];
    }
  }
  for (int64_t i = 0; !transposed_ && i < k; ++i) {
    widen(strip.data() + i * kFitColumns, source_.type, from + (i * form_.columns + first) * size,
          width);
  }
  std::array<uint8_t, kMaxBlock * kFitColumns> codes;
  float scales[kFitColumns], minimums[kFitColumns] = {};
  for (int64_t b = 0; b < form_.blocks; ++b) {
    const float* values = strip.data() + b * block * kFitColumns;
    if (form_.bits == 8) {
      quantise_to_8_bits(values, block, codes.data(), scales);
    } else {
      fit_(values, block, form_.symmetric, codes.data(), scales, minimums);
    }
    use(b, codes.data(), scales, minimums);
  }
}

void WeightColumns::quantise_compact(int64_t first, int64_t count, const CompactColumns& to) const {
  const int64_t block = form_.block, width = form_.blocks * block;
  std::vector<float> strip;
  for (int64_t begin = 0; begin < count; begin += kFitColumns) {
    const int64_t columns = std::min(kFitColumns, count - begin);
    quantise_strip(
        first + begin, columns, strip,
        [&](int64_t b, const uint8_t* codes, const float* scales, const float* minimums) {
          for (int64_t c = 0; c < columns; ++c) {
            uint8_t* codes_to = to.codes + (begin + c) * width + b * block;
            for (int64_t i = 0; i < block; ++i) codes_to[i] = codes[i * kFitColumns + c];
            const int64_t at = (begin + c) * form_.blocks + b;
            static_cast<uint16_t*>(to.scales)[at] = float_to_half(scales[c]);
            static_cast<uint16_t*>(to.minimums)[at] = float_to_half(minimums[c]);
          }
        });
  }
}

void WeightColumns::quantise(int64_t first, int64_t count, uint8_t* codes, void* scales,
                             float* zeros) const {
  const int64_t block = form_.block, scale_size = bytes_for(form_.scale_type, 1);
  std::vector<float> strip;
  for (int64_t begin = 0; begin < count; begin += kFitColumns) {
    const int64_t columns = std::min(kFitColumns, count - begin);
    quantise_strip(first + begin, columns, strip,
                   [&](int64_t b, const uint8_t* made, const float* scale, const float* minimum) {
                     for (int64_t c = 0; c < columns; ++c) {
                       const int64_t at = (begin + c) * form_.blocks + b;
                       store_codes(
                           made, c, block, form_.bits,
                           codes + (begin + c) * form_.code_bytes() + b * block * form_.bits / 8);
                       // A block of equal values is (0 - -1) · value.
                       const bool flat = form_.has_zeros && scale[c] == 0;
                       const float stored = flat ? minimum[c] : scale[c];
                       convert(form_.scale_type, static_cast<uint8_t*>(scales) + at * scale_size,
                               ElementType::f32, &stored, 1);
                       if (form_.has_zeros) zeros[at] = flat ? -1 : -minimum[c] / scale[c];
                     }
                   });
  }
}

}  // namespace lathe

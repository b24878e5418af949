// SPDX-License-Identifier: MIT
#include "ops/support/kv_cache_scale.h"

#include <algorithm>
#include <bit>

#include "ops/support/blocked_gemm.h"
#include "ops/support/dense_operand.h"
#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int kNibble = 8;  // offset of 4-bit codes

// Rounds half to even and clamps to integer bounds; NaN becomes the upper bound.
float rounded(float x, float low, float high) {
  constexpr float kShift = 12582912;  // 1.5 · 2^23: floats from here on are integers
  const float bounded = x < high ? (x > low ? x : low) : high;
  return bounded + kShift - kShift;
}

TensorView view_in(std::vector<std::byte>& memory, ElementType type,
                   std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  const auto bytes = static_cast<size_t>(bytes_for(type, count));
  if (memory.size() < bytes) memory.resize(std::bit_ceil(bytes));
  return dense_view(type, dims, memory.data());
}

}  // namespace

int64_t stored_size(ElementType cache, int64_t size) {
  return cache == ElementType::u8 ? (size + 1) / 2 : size;
}
Dim stored_size(ElementType cache, const Dim& size) {
  return cache == ElementType::u8 ? Dim::floor_div(size + Dim(1), 2) : size;
}

void check_kv_cache_scales(Infer& c, int first_scale, ElementType cache, int64_t heads,
                           const Dim& size) {
  const bool codes = (kCacheCodes & type_bit(cache)) != 0;
  for (const int operand : {first_scale, first_scale + 1}) {
    c.check(c.has(operand) == codes, "operand {}, a scale, {} for a cache of {}", operand,
            c.has(operand) ? "is present" : "is missing", to_string(cache));
    if (!codes) continue;
    const std::optional<int64_t> count = element_count(c.dims(operand)).constant();
    if (count && count != 1) c.require_equal(*count, size * Dim(heads), "scales of a cache");
  }
}

KvCacheScale::KvCacheScale(const OpCall& c, int operand, int64_t heads, int64_t size)
    : size_(size) {
  if (!c.has(operand)) return;
  const DenseOperand given(c.in(operand), ElementType::f32);
  const int64_t count = given.count();
  c.check(count == 1 || count == heads * size, "a cache has {} scales, expected 1 or {} · {}",
          count, heads, size);
  scales_ = ScratchArray<float>(heads * size);
  inverses_ = ScratchArray<float>(heads * size);
  for (int64_t i = 0; i < heads * size; ++i) {
    const float scale = given.as<float>()[count == 1 ? 0 : i];
    scales_.data()[i] = scale;
    inverses_.data()[i] = scale == 0 ? 1 : 1 / scale;
  }
}

void KvCacheScale::quantize(ElementType cache, int64_t head, const float* row, void* to) const {
  const float* inverse = inverses_.data() + head * size_;
  if (cache == ElementType::i8) {
    auto* codes = static_cast<int8_t*>(to);
    for (int64_t i = 0; i < size_; ++i) {
      codes[i] = static_cast<int8_t>(rounded(row[i] * inverse[i], -128, 127));
    }
  } else if (cache == ElementType::u8) {
    auto* codes = static_cast<uint8_t*>(to);
    const auto code = [&](int64_t i) {
      return i < size_ ? static_cast<int>(rounded(row[i] * inverse[i], -8, 7)) + kNibble : kNibble;
    };
    for (int64_t i = 0; i < size_; i += 2) {
      codes[i / 2] = static_cast<uint8_t>(code(i) | code(i + 1) << 4);
    }
  } else {
    const ScratchArray<float> scaled(size_);
    for (int64_t i = 0; i < size_; ++i) scaled.data()[i] = row[i] * inverse[i];
    convert(cache, to, ElementType::f32, scaled.data(), size_);
  }
}

void KvCacheScale::dequantize(ElementType cache, int64_t head, const void* codes, float* to) const {
  const float* scale = of(head);
  if (cache == ElementType::u8) {
    const auto* from = static_cast<const uint8_t*>(codes);
    for (int64_t i = 0; i < size_; ++i) {
      to[i] = static_cast<float>((from[i / 2] >> (i % 2 * 4) & 0xF) - kNibble) * scale[i];
    }
    return;
  }
  convert(ElementType::f32, to, cache, codes, size_);
  for (int64_t i = 0; i < size_; ++i) to[i] *= scale[i];
}

TensorView KvCacheScale::quantize(ElementType cache, const TensorView& rows,
                                  std::vector<std::byte>& memory) const {
  const std::array<int64_t, 4> dims = {rows.dims[0], rows.dims[1], rows.dims[2],
                                       stored_size(cache, size_)};
  const TensorView codes = view_in(memory, cache, dims);
  quantize(rows, codes);
  return codes;
}

void KvCacheScale::quantize(const TensorView& rows, const TensorView& codes) const {
  const ScratchArray<float> row(size_);
  auto* to = codes.as<std::byte>();
  for_each_index(codes.extents().first(3), [&](std::span<const int64_t> index) {
    const std::array<int64_t, 4> at = {index[0], index[1], index[2], 0};
    load_run({rows.type, rows.data, 0, 0, 0}, offset_of(rows, at), rows.strides[3], size_,
             row.data());
    quantize(codes.type, index[1], row.data(), to);
    to += codes.dims[3];
  });
}

TensorView KvCacheScale::dequantize(const TensorView& codes, std::vector<std::byte>& memory) const {
  const std::array<int64_t, 4> dims = {codes.dims[0], codes.dims[1], codes.dims[2], size_};
  const TensorView rows = view_in(memory, ElementType::f32, dims);
  dequantize(codes, rows);
  return rows;
}

void KvCacheScale::dequantize(const TensorView& codes, const TensorView& rows) const {
  const ScratchArray<std::byte> dense(codes.dims[3]);
  const TensorView one =
      dense_view(codes.type, std::array<int64_t, 1>{codes.dims[3]}, dense.data());
  float* to = rows.as<float>();
  for_each_index(codes.extents().first(3), [&](std::span<const int64_t> index) {
    TensorView row = one;
    row.strides[0] = codes.strides[3];
    row.data = codes.as<std::byte>() + offset_of(codes, index);
    if (row.strides[0] != 1) {
      copy_elements(row, one);
      row = one;
    }
    dequantize(codes.type, index[1], row.data, to);
    to += size_;
  });
}

}  // namespace lathe

// SPDX-License-Identifier: MIT
// epilogue_simple.h on vectors: kRows rows of one vector of columns.
#pragma once

#include "targets/cpu/kernels/activation_kernel.h"
#include "targets/cpu/kernels/epilogue_simple.h"

namespace lathe::cpu {
namespace {

inline F32 load_residual(const SimpleEpilogue& e, int64_t at, Mask mask) {
  switch (e.residual_type) {
    case ElementType::bf16:
      return load_f32(static_cast<const Bf16*>(e.residual) + at, mask);
    case ElementType::i8:
      return load_f32(static_cast<const int8_t*>(e.residual) + at, mask);
    case ElementType::u8:
      return load_f32(static_cast<const uint8_t*>(e.residual) + at, mask);
    default:
      return load(static_cast<const float*>(e.residual) + at, mask);
  }
}

// A byte, or what any byte zero point added keeps out of range.
inline I32 to_byte_steps(F32 x, const SimpleEpilogue& e) {
  return saturate(x, -0x1p30F, 0x1p30F) + set1(static_cast<int32_t>(e.out_zero));
}

inline void store_simple(const SimpleEpilogue& e, char* out, F32 x, Mask mask, bool whole) {
  switch (e.out) {
    case ElementType::bf16: {
      auto* p = reinterpret_cast<Bf16*>(out);
      whole ? store_f32(p, x) : store_f32(p, x, mask);
      break;
    }
    case ElementType::i8: {
      auto* p = reinterpret_cast<int8_t*>(out);
      const I32 y = max(set1(-128), min(set1(127), to_byte_steps(x, e)));
      whole ? store_i32(p, y) : store_i32(p, y, mask);
      break;
    }
    case ElementType::u8: {
      auto* p = reinterpret_cast<uint8_t*>(out);
      const I32 y = max(set1(0), min(set1(255), to_byte_steps(x, e)));
      whole ? store_i32(p, y) : store_i32(p, y, mask);
      break;
    }
    default: {
      auto* p = reinterpret_cast<float*>(out);
      whole ? store(p, x) : store(p, x, mask);
    }
  }
}

// Of f32 sums; those of integers have column_add in them already.
template <int kRows>
inline void finish_simple(const SimpleEpilogue& e, F32 (&x)[kRows], int rows, int64_t row,
                          int64_t column, Mask mask, bool whole, char* out, int64_t out_stride) {
  if (e.scale != nullptr) {
    const F32 scale = load(e.scale + column, mask);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = x[r] * scale;
  }
  if (e.bias != nullptr) {
    const F32 bias = load(e.bias + column, mask);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = x[r] + bias;
  }
  if (e.residual != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      if (r < rows) x[r] = x[r] + load_residual(e, (row + r) * e.residual_stride + column, mask);
    }
  }
  if (e.has_activation) activate(e.activation, e.a, e.b, x);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (r < rows) store_simple(e, out + r * out_stride, x[r], mask, whole);
  }
}

// A tile of sums in memory.
inline void finish_simple_tile(const SimpleEpilogue& e, const EpilogueTile& tile) {
  constexpr int kRows = 7;
  const int64_t size = e.out == ElementType::f32 ? 4 : e.out == ElementType::bf16 ? 2 : 1;
  for (int64_t c = 0; c < tile.columns; c += kLanes) {
    const int64_t left = tile.columns - c;
    const bool whole = left >= kLanes;
    const Mask mask = mask_first(whole ? kLanes : left);
    const int64_t column = tile.column + c;
    char* out = static_cast<char*>(tile.out) + c * size;
    for (int64_t row = 0; row < tile.rows; row += kRows) {
      const int rows = static_cast<int>(tile.rows - row < kRows ? tile.rows - row : kRows);
      F32 x[kRows];
      if (tile.integer_sums) {
        const I32 add = e.column_add == nullptr ? zero_i32() : load(e.column_add + column, mask);
        const int32_t* sums = static_cast<const int32_t*>(tile.sums) + row * tile.sums_stride + c;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          x[r] = to_f32(load(sums + (r < rows ? r : 0) * tile.sums_stride, mask) + add);
      } else {
        const float* sums = static_cast<const float*>(tile.sums) + row * tile.sums_stride + c;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          x[r] = load(sums + (r < rows ? r : 0) * tile.sums_stride, mask);
      }
      finish_simple(e, x, rows, tile.row + row, column, mask, whole, out + row * tile.out_stride,
                    tile.out_stride);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

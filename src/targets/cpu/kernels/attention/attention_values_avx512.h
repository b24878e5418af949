// SPDX-License-Identifier: MIT
// bf16 values for dot products of pairs. Include only in units compiled for an instruction set.
#pragma once

#include <cstddef>

#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

// 16 values of an even key and, in the high halves, of the next one; 0 if there is no next key.
inline I32 pair_values(const Bf16* even, const Bf16* odd, bool has_odd, Mask mask) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask.m, even));
  if (!has_odd) return {low};
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask.m, odd));
  return {_mm512_or_si512(low, _mm512_slli_epi32(high, 16))};
}

struct PairValues {
  static F32 read(const std::byte* row, int64_t stride, bool has_odd, int64_t at, Mask mask) {
    return from_bits(pair_values(reinterpret_cast<const Bf16*>(row) + at,
                                 reinterpret_cast<const Bf16*>(row + stride) + at, has_odd, mask));
  }
  // Two keys of 32 columns: four columns of each 16 bytes, then the other four.
  template <int kV>
  static void read_all(const std::byte* row, int64_t stride, int64_t at, F32 (&x)[kV]) {
#pragma GCC unroll 4
    for (int c = 0; c < kV; c += 2) {
      const __m512i a = _mm512_loadu_si512(reinterpret_cast<const Bf16*>(row) + at + c * kLanes);
      const __m512i b =
          _mm512_loadu_si512(reinterpret_cast<const Bf16*>(row + stride) + at + c * kLanes);
      x[c] = from_bits({_mm512_unpacklo_epi16(a, b)});
      x[c + 1] = from_bits({_mm512_unpackhi_epi16(a, b)});
    }
  }
  template <int kV>
  static void order(F32 (&x)[kV]) {
#pragma GCC unroll 4
    for (int c = 0; c < kV; c += 2) {
      const __m512 a = x[c].v, b = x[c + 1].v;
      x[c] = {_mm512_shuffle_f32x4(a, b, 0x88)};
      x[c + 1] = {_mm512_shuffle_f32x4(a, b, 0xDD)};
    }
  }
  template <int kV>
  static void restore_order(F32 (&x)[kV]) {
#pragma GCC unroll 4
    for (int c = 0; c < kV; c += 2) {
      const __m512 a = _mm512_shuffle_f32x4(x[c].v, x[c + 1].v, 0x44);
      const __m512 b = _mm512_shuffle_f32x4(x[c].v, x[c + 1].v, 0xEE);
      x[c] = {_mm512_shuffle_f32x4(a, a, 0xD8)};
      x[c + 1] = {_mm512_shuffle_f32x4(b, b, 0xD8)};
    }
  }
};

// to[key / 2][value] = the values of an even key and the next one; 0 after the last key. Rows are
// `stride` bytes apart.
inline void interleave_values(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size,
                              int32_t* to, int64_t to_pitch) {
  const auto* row = reinterpret_cast<const std::byte*>(rows);
  for (int64_t key = 0; key < keys; key += 2, to += to_pitch) {
    const auto* a = reinterpret_cast<const Bf16*>(row + key * stride);
    const auto* b = reinterpret_cast<const Bf16*>(row + (key + 1) * stride);
    for (int64_t i = 0; i < value_size; i += kLanes) {
      const Mask mask = mask_first(value_size - i < kLanes ? value_size - i : kLanes);
      store(to + i, pair_values(a + i, b + i, key + 1 < keys, mask), mask);
    }
  }
}

// Contiguous interleave_values; pairs_stride is the byte stride of key pairs.
inline void stage_pairs(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size,
                        void* to) {
  interleave_values(rows, stride, keys, value_size, static_cast<int32_t*>(to), value_size);
}
inline int64_t pairs_stride(int64_t value_size) { return value_size * 4; }

}  // namespace
}  // namespace lathe::cpu

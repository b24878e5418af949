// SPDX-License-Identifier: MIT
// Int8 depthwise kernel, two taps at a time. Two adjacent columns, minus the zero point, form pairs
// of int16, which one vpdpwssd multiplies by two taps and accumulates.
#pragma once

#include <type_traits>

#include "targets/cpu/kernels/depthwise/depthwise_row.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

#if defined(__AVX512VNNI__)
// True if weights are in the layout of make_pairs in depthwise.cpp: int16 of tap k and of the next.
template <class X>
constexpr bool kTakesPairs = sizeof(X) == 1;

inline I32 add_pairs(I32 sum, I32 a, I32 b) {
  // Inline assembly: compilers split it into two instructions to reduce latency.
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  return sum;
}
// Permutes two vectors of channels to the order in which int16 pairs unpack, and back.
inline void to_pair_order(I32 (&x)[2]) {
  const I32 first = x[0];
  x[0].v = _mm512_shuffle_i32x4(first.v, x[1].v, 0x88);
  x[1].v = _mm512_shuffle_i32x4(first.v, x[1].v, 0xDD);
}
inline void from_pair_order(I32 (&x)[2]) {
  const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const I32 first = x[0];
  x[0].v = _mm512_permutex2var_epi64(first.v, low, x[1].v);
  x[1].v = _mm512_permutex2var_epi64(first.v, high, x[1].v);
}
inline void to_pair_order(I32 (&)[1]) {}
inline void from_pair_order(I32 (&)[1]) {}

// Loads a column for pairing: one vector as int32, two as int16.
template <class X, int kVectors, bool kTail>
inline __m512i load_for_pairs(const X* x, Mask tail, __m512i zero) {
  if constexpr (kVectors == 1) {
    const I32 elements = kTail ? load_i32(x, tail) : load_i32(x);
    return _mm512_sub_epi32(elements.v, zero);
  } else {
    static_assert(!kTail);
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    const bool is_signed = std::is_signed_v<X>;
    const __m512i int16 = is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
    return _mm512_sub_epi16(int16, zero);
  }
}
template <int kVectors>
inline __m512i zero_for_pairs(const DepthwiseRow& row) {
  return kVectors == 1 ? _mm512_set1_epi32(row.x_zero)
                       : _mm512_set1_epi16(static_cast<int16_t>(row.x_zero));
}
template <int kVectors>
inline void pair_columns(__m512i column, __m512i next, I32 (&to)[kVectors]) {
  if constexpr (kVectors == 1) {
    to[0].v = _mm512_mask_blend_epi16(0xAAAAAAAA, column, _mm512_slli_epi32(next, 16));
  } else {
    to[0].v = _mm512_unpacklo_epi16(column, next);
    to[1].v = _mm512_unpackhi_epi16(column, next);
  }
}

// add_row of depthwise_kernel.h for pairs. Columns outside are read from `pad`, which holds zero
// points.
template <class X, int kKernel, int kStride, class Block, class IsInside>
inline __attribute__((always_inline)) void add_row_pairs(
    const DepthwiseRow& row, const Block& block, const X* x, const float* w, const X* pad,
    I32 (&sums)[Block::kOutputs][Block::kVectors], IsInside&& is_inside) {
  constexpr int kOutputs = Block::kOutputs, kVectors = Block::kVectors;
  constexpr int kPairs = (kKernel + 1) / 2, kColumns = (kOutputs - 1) * kStride + kKernel;
  I32 weights[kPairs][kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kPairs; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      weights[k][v] = load(reinterpret_cast<const int32_t*>(w + 2 * k * row.w_pitch + v * kLanes));
    }
    to_pair_order(weights[k]);
  }
  const __m512i zero = zero_for_pairs<kVectors>(row);
  const auto column = [&](int j) __attribute__((always_inline)) {
    const X* from = is_inside(j) ? x + j * row.x_pitch : pad;
    return load_for_pairs<X, kVectors, Block::kTail>(from, block.tail, zero);
  };
  __m512i here = column(0);
#pragma GCC unroll 32
  for (int j = 0; j < kColumns; ++j) {
    const __m512i next = j + 1 < kColumns ? column(j + 1) : here;
    if (j % kStride == 0) {
      I32 pair[kVectors];
      pair_columns<kVectors>(here, next, pair);
#pragma GCC unroll 16
      for (int t = 0; t < kOutputs; ++t) {
        const int k = j - t * kStride;
        if (k < 0 || k >= kKernel || k % 2 != 0) continue;
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          sums[t][v] = add_pairs(sums[t][v], pair[v], weights[k / 2][v]);
      }
    }
    here = next;
    __asm__ volatile("" ::: "memory");  // barrier: loads must not move across columns
  }
}

// add_taps for pairs: only the first tap of each pair.
template <class X, class Block, class IsInside>
inline __attribute__((always_inline)) void add_taps_pairs(
    const DepthwiseRow& row, const Block& block, const X* x, const float* w,
    I32 (&sums)[Block::kOutputs][Block::kVectors], IsInside&& is_inside) {
  constexpr int kVectors = Block::kVectors;
  const __m512i zero = zero_for_pairs<kVectors>(row);
  for (int64_t k = 0; k < row.kernel; ++k) {
    I32 weights[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      weights[v] = load(reinterpret_cast<const int32_t*>(w + k * row.w_pitch + v * kLanes));
    to_pair_order(weights);
#pragma GCC unroll 16
    for (int t = 0; t < Block::kOutputs; ++t) {
      const int64_t j = t * row.stride + k * row.dilation;
      if (!is_inside(j)) continue;
      I32 pair[kVectors];
      pair_columns<kVectors>(
          load_for_pairs<X, kVectors, Block::kTail>(x + j * row.x_pitch, block.tail, zero),
          _mm512_setzero_si512(), pair);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = add_pairs(sums[t][v], pair[v], weights[v]);
    }
  }
}
#else
template <class X>
constexpr bool kTakesPairs = false;
#endif

}  // namespace
}  // namespace lathe::cpu

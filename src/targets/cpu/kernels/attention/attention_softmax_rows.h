// SPDX-License-Identifier: MIT
// Softmax of one block of scores with vectors along keys: scores are [row][kKeyBlock], readable
// after the last key. Bits equal those of attention_softmax.h. Include only in units compiled for
// an instruction set.
#pragma once

#include <type_traits>

#include "targets/cpu/kernels/attention/attention_softmax.h"

namespace lathe::cpu {
namespace {

constexpr int kRowsAtOnce = 4;

// Calls body(row, number of rows) for kRowsAtOnce rows at a time, then for the remaining ones.
template <class F>
inline void for_rows(int64_t rows, F&& body) {
  int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) body(row, std::integral_constant<int, 4>());
  switch (rows - row) {
    case 3:
      return body(row, std::integral_constant<int, 3>());
    case 2:
      return body(row, std::integral_constant<int, 2>());
    case 1:
      return body(row, std::integral_constant<int, 1>());
    default:
      return;
  }
}

// Returns contiguous key scales: `scales` itself, or a copy in `to`.
inline const float* contiguous_scales(const float* scales, int64_t step, int64_t keys, float* to) {
  if (scales == nullptr || step == 1) return scales;
  for (int64_t i = 0; i < keys; ++i) to[i] = scales[i * step];
  return to;
}

// Mask of the keys from `at` to `at` + kLanes - 1.
inline Mask mask_of_keys(const AttentionBlock& b, int64_t at) {
  const int64_t left = b.keys - at;
  return mask_first(left < 0 ? 0 : left < kLanes ? left : kLanes);
}

inline void transform_row(const AttentionBlock& b, const float* k_scales, const float* bias,
                          float* scores) {
  const F32 low = set1(-kInfinity), by = set1(b.softcap > 0 ? b.inside_cap : b.scale);
  for (int64_t at = 0; at < b.keys; at += kLanes) {
    const Mask mask = mask_of_keys(b, at);
    F32 x = load(scores + at);
    if (k_scales != nullptr) x = x * load(k_scales + at, mask);
    x = x * by;
    if (b.softcap > 0) x = tanh(x) * set1(b.softcap);
    if (bias != nullptr) {
      const F32 more = load(bias + at, mask);
      // A masked key stays masked if its score is NaN.
      x = select(equal(more, low), low, fma(more, set1(fits::kLog2E), x));
    }
    store(scores + at, x);
  }
}

inline void mask_row(const AttentionBlock& b, int64_t row, float* scores) {
  const F32 low = set1(-kInfinity), first = set1(b.lowest[row]), last = set1(b.highest[row]);
  float count[kLanes];
  for (int i = 0; i < kLanes; ++i) count[i] = static_cast<float>(i);
  F32 key = load(count);
  for (int64_t at = 0; at < b.keys; at += kLanes, key = key + set1(static_cast<float>(kLanes))) {
    const F32 x = select(less_equal(first, key), load(scores + at), low);
    store(scores + at, select(less_equal(key, last), x, low));
  }
}

// The four partial sums of kRows rows at once, to hide the latency of additions.
template <int kRows>
inline void sum_rows(const float* weights, float* to) {
  __m128 sums[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sums[r] = _mm_setzero_ps();
  for (int64_t i = 0; i < kKeyBlock; i += 4) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      sums[r] = _mm_add_ps(sums[r], _mm_loadu_ps(weights + r * kKeyBlock + i));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const __m128 pairs = _mm_add_ps(sums[r], _mm_movehdup_ps(sums[r]));
    to[r] = _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehl_ps(pairs, pairs)));
  }
}

#if defined(__AVX512F__)
// 32 values as bf16, rounded half up.
inline void store_weights(Bf16* to, F32 first, F32 second) {
  alignas(64) static constexpr int16_t kHigh[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                    23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                    45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const I32 half = set1(0x8000);
  const I32 a = bits_of(first) + half, b = bits_of(second) + half;
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a.v, _mm512_load_si512(kHigh), b.v));
}
#endif

// For a softmax without prefetch.
struct NoPrefetch {
  template <int kCacheLines>
  void prefetch() {}
};

// Mask of the valid keys from `at` on; a full block needs none.
template <bool kFull>
inline Mask mask_of(const AttentionBlock& b, int64_t at) {
  return kFull ? mask_first(kLanes) : mask_of_keys(b, at);
}

template <bool kFull, int kVectors>
inline void scale_weights(F32 (&x)[kVectors], const float* scales, const AttentionBlock& b) {
#pragma GCC unroll 16
  for (int i = 0; i < kVectors; ++i) {
    x[i] = x[i] * load(scales + i * kLanes, mask_of<kFull>(b, i * kLanes));
  }
}

template <bool kPairs, bool kScaled, bool kFull, class Prefetch>
void softmax_block(const AttentionBlock& b, int64_t rows, Prefetch& prefetcher) {
  constexpr int kVectors = static_cast<int>(kKeyBlock) / kLanes;
  // `transformed` needs a pass of its own; a scale per key joins the first pass.
  const bool transformed = b.softcap > 0 || b.bias != nullptr || b.scale <= 0;
  const bool scaled = !transformed && b.k_scales != nullptr;
  float k_copy[kKeyBlock], v_copy[kKeyBlock];
  const float* k_scales = contiguous_scales(b.k_scales, b.k_scale_step, b.keys, k_copy);
  const float* v_scales =
      kScaled ? contiguous_scales(b.v_scales, b.v_scale_step, b.keys, v_copy) : nullptr;
  const F32 scale = set1(transformed || scaled ? 1.0F : b.scale), low = set1(-kInfinity);
  const F32 by = set1(b.scale);
  store(b.largest, low);
  store(b.sum, zero_f32());
  // Maxima of all rows first, to hide the latency of the reductions.
  for (int64_t row = 0; row < rows; ++row) {
    float* scores = b.scores + row * kKeyBlock;
    const float* bias = b.bias == nullptr ? nullptr : b.bias + row * b.bias_pitch;
    prefetcher.template prefetch<4>();
    if (transformed) transform_row(b, k_scales, bias, scores);
    if (scaled) {
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) {
        const F32 key = load(k_scales + i * kLanes, mask_of<kFull>(b, i * kLanes));
        store(scores + i * kLanes, load(scores + i * kLanes) * key * by);
      }
    }
    if (b.lowest != nullptr) mask_row(b, row, scores);
    F32 top[2] = {low, low};
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      F32 x = load(scores + i * kLanes);
      if constexpr (!kFull) x = keep(mask_of_keys(b, i * kLanes), x, low);
      top[i % 2] = max(top[i % 2], x);
    }
    b.largest[row] = max_lanes(max(top[0], top[1])) * lane0(scale);
  }
  for (int64_t row = 0; row < rows; ++row) {
    float* scores = b.scores + row * kKeyBlock;
    const float largest = b.largest[row];
    const F32 minus = set1(largest == -kInfinity ? 0.0F : -largest);
    F32 x[kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      x[i] = load(scores + i * kLanes);
      if constexpr (!kFull) x[i] = keep(mask_of_keys(b, i * kLanes), x[i], low);
      prefetcher.template prefetch<1>();
      x[i] = weight_of<kPairs>(x[i], scale, minus);
      store(scores + i * kLanes, x[i]);
    }
#if defined(__AVX512F__)
    if constexpr (kPairs) {
      if (v_scales != nullptr) scale_weights<kFull>(x, v_scales, b);
      auto* to = static_cast<Bf16*>(b.weights) + row * kKeyBlock;
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; i += 2) store_weights(to + i * kLanes, x[i], x[i + 1]);
    }
#endif
  }
  for_rows(rows, [&](int64_t row, auto count) {
    sum_rows<count()>(b.scores + row * kKeyBlock, b.sum + row);
  });
  if (kPairs || v_scales == nullptr) return;
  for (int64_t row = 0; row < rows; ++row) {
    F32 x[kVectors];
    for (int i = 0; i < kVectors; ++i) x[i] = load(b.scores + row * kKeyBlock + i * kLanes);
    scale_weights<kFull>(x, v_scales, b);
    for (int i = 0; i < kVectors; ++i) store(b.scores + row * kKeyBlock + i * kLanes, x[i]);
  }
}

// Writes weights: f32 in place, or bf16 [row][kKeyBlock], with zeros after the last key up to a
// full block. kScaled multiplies them by the value scales.
template <bool kPairs, bool kScaled = true, class Prefetch = NoPrefetch>
void softmax_rows(const AttentionBlock& b, int64_t rows, Prefetch&& prefetcher = {}) {
  b.keys == kKeyBlock ? softmax_block<kPairs, kScaled, true>(b, rows, prefetcher)
                      : softmax_block<kPairs, kScaled, false>(b, rows, prefetcher);
}

}  // namespace
}  // namespace lathe::cpu

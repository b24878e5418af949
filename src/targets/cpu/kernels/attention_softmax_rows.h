// SPDX-License-Identifier: MIT
// The softmax of one block of scores where vectors run along keys: scores [row][kKeyBlock], 0 to be
// read behind the last key. Number by number what attention_softmax.h computes. Only for units
// compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/attention_softmax.h"

namespace lathe::cpu {
namespace {

// Scales of keys lie side by side in `to` afterwards, unless they do already.
inline const float* together(const float* scales, int64_t step, int64_t keys, float* to) {
  if (scales == nullptr || step == 1) return scales;
  for (int64_t i = 0; i < keys; ++i) to[i] = scales[i * step];
  return to;
}

// The keys among `at` to `at` + kLanes - 1.
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
      // Masked is masked, whatever the score.
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

// The four sums of a row.
inline __m128 add_phases(__m128 sum, F32 p) {
#if defined(__AVX512F__)
  sum = _mm_add_ps(sum, _mm512_castps512_ps128(p.v));
  sum = _mm_add_ps(sum, _mm512_extractf32x4_ps(p.v, 1));
  sum = _mm_add_ps(sum, _mm512_extractf32x4_ps(p.v, 2));
  return _mm_add_ps(sum, _mm512_extractf32x4_ps(p.v, 3));
#else
  sum = _mm_add_ps(sum, _mm256_castps256_ps128(p.v));
  return _mm_add_ps(sum, _mm256_extractf128_ps(p.v, 1));
#endif
}
inline float sum_of(__m128 sum) {
  const __m128 pairs = _mm_add_ps(sum, _mm_movehdup_ps(sum));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehl_ps(pairs, pairs)));
}

#if defined(__AVX512F__)
// 32 numbers as bf16, half up.
inline void store_weights(Bf16* to, F32 first, F32 second) {
  alignas(64) static constexpr int16_t kHigh[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                    23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                    45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const I32 half = set1(0x8000);
  const I32 a = bits_of(first) + half, b = bits_of(second) + half;
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a.v, _mm512_load_si512(kHigh), b.v));
}
#endif

// Weights: f32 in place, or [row][kKeyBlock] of bf16; 0 behind the last key up to a whole block.
template <bool kPairs>
void softmax_rows(const AttentionBlock& b, int64_t rows) {
  constexpr int kVectors = static_cast<int>(kKeyBlock) / kLanes;
  const bool transformed =
      b.softcap > 0 || b.bias != nullptr || b.k_scales != nullptr || b.scale <= 0;
  float k_together[kKeyBlock], v_together[kKeyBlock];
  const float* k_scales = together(b.k_scales, b.k_scale_step, b.keys, k_together);
  const float* v_scales = together(b.v_scales, b.v_scale_step, b.keys, v_together);
  const F32 scale = set1(transformed ? 1.0F : b.scale), low = set1(-kInfinity);
  store(b.largest, low);
  store(b.sum, zero_f32());
  for (int64_t row = 0; row < rows; ++row) {
    float* scores = b.scores + row * kKeyBlock;
    const float* bias = b.bias == nullptr ? nullptr : b.bias + row * b.bias_pitch;
    if (transformed) transform_row(b, k_scales, bias, scores);
    if (b.lowest != nullptr) mask_row(b, row, scores);
    F32 x[kVectors], top[2] = {low, low};
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      x[i] = keep(mask_of_keys(b, i * kLanes), load(scores + i * kLanes), low);
      top[i % 2] = max(top[i % 2], x[i]);
    }
    const float largest = max_lanes(max(top[0], top[1])) * lane0(scale);
    const F32 minus = set1(largest == -kInfinity ? 0.0F : -largest);
    __m128 sum = _mm_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      x[i] = weight_of<kPairs>(x[i], scale, minus);
      sum = add_phases(sum, x[i]);
      if (v_scales != nullptr)
        x[i] = x[i] * load(v_scales + i * kLanes, mask_of_keys(b, i * kLanes));
    }
    b.largest[row] = largest;
    b.sum[row] = sum_of(sum);
#if defined(__AVX512F__)
    if constexpr (kPairs) {
      auto* to = static_cast<Bf16*>(b.weights) + row * kKeyBlock;
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; i += 2) store_weights(to + i * kLanes, x[i], x[i + 1]);
      continue;
    }
#endif
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) store(scores + i * kLanes, x[i]);
  }
}

}  // namespace
}  // namespace lathe::cpu

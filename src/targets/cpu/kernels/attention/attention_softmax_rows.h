// SPDX-License-Identifier: MIT
// The softmax of one block of scores where vectors run along keys: scores [row][kKeyBlock], 0 to be
// read behind the last key. Number by number what attention_softmax.h computes. Only for units
// compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/attention/attention_softmax.h"

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

// The four sums of each of kRows rows, which would wait for themselves one by one.
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

// Where nothing is fetched beside the softmax.
struct NoPrefetcher {
  template <int kLines>
  void take() {}
};

// Keys from `at` on that count: all where the block is whole, which needs no masks.
template <bool kWhole>
inline Mask mask_of(const AttentionBlock& b, int64_t at) {
  return kWhole ? mask_first(kLanes) : mask_of_keys(b, at);
}

template <bool kWhole, int kVectors>
inline void scale_weights(F32 (&x)[kVectors], const float* scales, const AttentionBlock& b) {
#pragma GCC unroll 16
  for (int i = 0; i < kVectors; ++i) {
    x[i] = x[i] * load(scales + i * kLanes, mask_of<kWhole>(b, i * kLanes));
  }
}

template <bool kPairs, bool kScaled, bool kWhole, class Ahead>
void softmax_block(const AttentionBlock& b, int64_t rows, Ahead& ahead) {
  constexpr int kVectors = static_cast<int>(kKeyBlock) / kLanes;
  // What a whole pass changes, and a scale per key, which the first pass takes along.
  const bool transformed = b.softcap > 0 || b.bias != nullptr || b.scale <= 0;
  const bool scaled = !transformed && b.k_scales != nullptr;
  float k_together[kKeyBlock], v_together[kKeyBlock];
  const float* k_scales = together(b.k_scales, b.k_scale_step, b.keys, k_together);
  const float* v_scales =
      kScaled ? together(b.v_scales, b.v_scale_step, b.keys, v_together) : nullptr;
  const F32 scale = set1(transformed || scaled ? 1.0F : b.scale), low = set1(-kInfinity);
  const F32 by = set1(b.scale);
  store(b.largest, low);
  store(b.sum, zero_f32());
  // All rows' largest scores first: one after another, each would wait for its own.
  for (int64_t row = 0; row < rows; ++row) {
    float* scores = b.scores + row * kKeyBlock;
    const float* bias = b.bias == nullptr ? nullptr : b.bias + row * b.bias_pitch;
    ahead.template take<4>();
    if (transformed) transform_row(b, k_scales, bias, scores);
    if (scaled) {
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) {
        const F32 key = load(k_scales + i * kLanes, mask_of<kWhole>(b, i * kLanes));
        store(scores + i * kLanes, load(scores + i * kLanes) * key * by);
      }
    }
    if (b.lowest != nullptr) mask_row(b, row, scores);
    F32 top[2] = {low, low};
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      F32 x = load(scores + i * kLanes);
      if constexpr (!kWhole) x = keep(mask_of_keys(b, i * kLanes), x, low);
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
      if constexpr (!kWhole) x[i] = keep(mask_of_keys(b, i * kLanes), x[i], low);
      ahead.template take<1>();
      x[i] = weight_of<kPairs>(x[i], scale, minus);
      store(scores + i * kLanes, x[i]);
    }
#if defined(__AVX512F__)
    if constexpr (kPairs) {
      if (v_scales != nullptr) scale_weights<kWhole>(x, v_scales, b);
      auto* to = static_cast<Bf16*>(b.weights) + row * kKeyBlock;
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; i += 2) store_weights(to + i * kLanes, x[i], x[i + 1]);
    }
#endif
  }
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) sum_rows<4>(b.scores + row * kKeyBlock, b.sum + row);
  for (; row < rows; ++row) sum_rows<1>(b.scores + row * kKeyBlock, b.sum + row);
  if (kPairs || v_scales == nullptr) return;
  for (row = 0; row < rows; ++row) {
    F32 x[kVectors];
    for (int i = 0; i < kVectors; ++i) x[i] = load(b.scores + row * kKeyBlock + i * kLanes);
    scale_weights<kWhole>(x, v_scales, b);
    for (int i = 0; i < kVectors; ++i) store(b.scores + row * kKeyBlock + i * kLanes, x[i]);
  }
}

// Weights: f32 in place, or [row][kKeyBlock] of bf16; 0 behind the last key up to a whole block.
// With the values' scales in them if kScaled.
template <bool kPairs, bool kScaled = true, class Ahead = NoPrefetcher>
void softmax_rows(const AttentionBlock& b, int64_t rows, Ahead&& ahead = {}) {
  b.keys == kKeyBlock ? softmax_block<kPairs, kScaled, true>(b, rows, ahead)
                      : softmax_block<kPairs, kScaled, false>(b, rows, ahead);
}

}  // namespace
}  // namespace lathe::cpu

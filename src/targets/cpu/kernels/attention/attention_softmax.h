// SPDX-License-Identifier: MIT
// Softmax of one block of scores, and the merge of blocks. Include only in units compiled for an
// instruction set.
#pragma once

#include "targets/cpu/kernels/attention/attention_table.h"
#include "targets/cpu/kernels/simd/simd_math.h"

namespace lathe::cpu {
namespace {

constexpr float kInfinity = __builtin_inff();

inline void prefetch(AttentionPrefetch& next) {
  const auto prefetch_line = [](const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  };
  for (int64_t i = next.step; i > 0 && next.rows > 0; --i, --next.rows) {
    if (next.in_segment == 0) {
      next.row = next.segments[next.next++];
      next.in_segment = next.length;
    }
    --next.in_segment;
    if (next.bytes == kPrefetchBytes) {  // contiguous rows: see attention_table.h
#pragma GCC unroll 4
      for (int64_t at = 0; at < kPrefetchBytes; at += 64) prefetch_line(next.row + at);
    } else {
      for (int64_t at = 0; at < next.bytes; at += 64) prefetch_line(next.row + at);
    }
    next.row += next.stride;
  }
}

// 2^x = 1 + x·fit(x) for |x| <= 1/2. Relative errors: 1.1e-7, and 1.1e-4 for bf16 weights.
constexpr float kExp2Fit[] = {0x1.62e42ap-1F, 0x1.ebf9bcp-3F, 0x1.c6b752p-5F, 0x1.3cea88p-7F,
                              0x1.5bba14p-10F};
constexpr float kShortExp2Fit[] = {0x1.62f5fap-1F, 0x1.f00c4ep-3F, 0x1.c2a218p-5F};

// x <= 0 or NaN, which passes through. Results below 2^-126 become 0. Exactly 1 for 0.
template <int kCount>
inline F32 exp2_of_negative(F32 x, const float (&fit)[kCount]) {
  const F32 magic = set1(0x1.8p+23F + 127);
  const F32 bounded = max(set1(-127.0F), x);
  const F32 shifted = bounded + magic;
  const F32 r = bounded - (shifted - magic);
  const F32 power = from_bits(shift_left<23>(bits_of(shifted)));
  return fma(polynomial(r, fit), r, set1(1.0F)) * power;
}

// Both values as bf16, rounded half up, `low` in the low halves.
inline I32 pack_weights(F32 low, F32 high) {
  const I32 half = set1(0x8000);
  const I32 a = bits_of(low) + half, b = bits_of(high) + half;
#if defined(__AVX512F__)
  return {_mm512_ternarylogic_epi32(_mm512_srli_epi32(a.v, 16), b.v,
                                    _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000)), 0xF8)};
#else
  return {
      _mm256_or_si256(_mm256_srli_epi32(a.v, 16), (b & set1(static_cast<int32_t>(0xFFFF0000))).v)};
#endif
}

// Applies softcap, key scales and bias; the result is in units of log2.
template <int kV>
void transform_scores(const AttentionBlock& b) {
  constexpr int64_t kPitch = kV * kLanes;
  const F32 low = set1(-kInfinity), log2e = set1(fits::kLog2E);
  for (int64_t key = 0; key < b.keys; ++key) {
    const float key_scale = b.k_scales == nullptr ? 1 : b.k_scales[key * b.k_scale_step];
    const float* bias = b.bias == nullptr ? nullptr : b.bias + key * b.bias_pitch;
    const F32 by = set1(b.softcap > 0 ? b.inside_cap : b.scale);
    for (int v = 0; v < kV; ++v) {
      float* at = b.scores + key * kPitch + v * kLanes;
      F32 x = load(at);
      if (b.k_scales != nullptr) x = x * set1(key_scale);
      x = x * by;
      if (b.softcap > 0) x = tanh(x) * set1(b.softcap);
      if (bias != nullptr) {
        const F32 more = b.bias_pitch == 1 ? set1(*bias) : load(bias + v * kLanes);
        // A masked key stays masked if its score is NaN.
        x = select(equal(more, low), low, fma(more, log2e, x));
      }
      store(at, x);
    }
  }
}

template <int kV>
void mask_scores(const AttentionBlock& b) {
  constexpr int64_t kPitch = kV * kLanes;
  const F32 low = set1(-kInfinity);
  F32 first[kV], last[kV];
  for (int v = 0; v < kV; ++v) {
    first[v] = load(b.lowest + v * kLanes);
    last[v] = load(b.highest + v * kLanes);
  }
  for (int64_t key = 0; key < b.keys; ++key) {
    const F32 at = set1(static_cast<float>(key));
    for (int v = 0; v < kV; ++v) {
      float* p = b.scores + key * kPitch + v * kLanes;
      const F32 x = select(less_equal(first[v], at), load(p), low);
      store(p, select(less_equal(at, last[v]), x, low));
    }
  }
}

// A block's sum adds four partial sums, each of every fourth weight in ascending order.
constexpr int kSumPhases = 4;

template <bool kPairs>
inline F32 weight_of(F32 score, F32 scale, F32 minus) {
  const F32 x = fma(score, scale, minus);
  if constexpr (kPairs) {
    return exp2_of_negative(x, kShortExp2Fit);
  } else {
    return exp2_of_negative(x, kExp2Fit);
  }
}

// Converts scores to weights relative to the block's maximum: f32 in place, or pairs of bf16.
template <bool kPairs, int kV>
void softmax(const AttentionBlock& b) {
  constexpr int64_t kPitch = kV * kLanes;
  const bool transformed =
      b.softcap > 0 || b.bias != nullptr || b.k_scales != nullptr || b.scale <= 0;
  if (transformed) transform_scores<kV>(b);
  if (b.lowest != nullptr) mask_scores<kV>(b);
  const F32 scale = set1(transformed ? 1.0F : b.scale);
  for (int v = 0; v < kV; ++v) {
    float* scores = b.scores + v * kLanes;
    F32 top[kSumPhases];
    for (F32& x : top) x = set1(-kInfinity);
    int64_t key = 0;
    for (; key + kSumPhases <= b.keys; key += kSumPhases) {
#pragma GCC unroll 4
      for (int i = 0; i < kSumPhases; ++i) top[i] = max(top[i], load(scores + (key + i) * kPitch));
    }
    for (; key < b.keys; ++key) top[0] = max(top[0], load(scores + key * kPitch));
    const F32 largest = max(max(top[0], top[1]), max(top[2], top[3])) * scale;
    store(b.largest + v * kLanes, largest);
    const F32 minus = select(equal(largest, set1(-kInfinity)), zero_f32(), negate(largest));
    F32 sum[kSumPhases] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
    const auto weight = [&](int64_t key, int phase) {
      const F32 p = weight_of<kPairs>(load(scores + key * kPitch), scale, minus);
      sum[phase] = sum[phase] + p;
      return b.v_scales == nullptr ? p : p * set1(b.v_scales[key * b.v_scale_step]);
    };
    key = 0;
    if constexpr (kPairs) {
      auto* to = static_cast<int32_t*>(b.weights) + v * kLanes;
      for (; key + kSumPhases <= b.keys; key += kSumPhases, to += 2 * kPitch) {
        const F32 x0 = weight(key, 0), x1 = weight(key + 1, 1);
        const F32 x2 = weight(key + 2, 2), x3 = weight(key + 3, 3);
        store(to, pack_weights(x0, x1));
        store(to + kPitch, pack_weights(x2, x3));
      }
#pragma GCC unroll 2
      for (int i = 0; i < kSumPhases; i += 2, to += kPitch) {
        if (key + i >= b.keys) break;
        const F32 low = weight(key + i, i);
        const F32 high = key + i + 1 < b.keys ? weight(key + i + 1, i + 1) : zero_f32();
        store(to, pack_weights(low, high));
      }
    } else {
      for (; key + kSumPhases <= b.keys; key += kSumPhases) {
#pragma GCC unroll 4
        for (int i = 0; i < kSumPhases; ++i) store(scores + (key + i) * kPitch, weight(key + i, i));
      }
#pragma GCC unroll 3
      for (int i = 0; i < kSumPhases - 1; ++i) {
        if (key + i < b.keys) store(scores + (key + i) * kPitch, weight(key + i, i));
      }
    }
    store(b.sum + v * kLanes, (sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
}

// Factors of the state and of the block; merge_sums also updates maximum and sum.
struct MergeFactors {
  F32 before;
  F32 block;
};
inline MergeFactors merge_sums(const AttentionState& state, const AttentionState& block,
                               int64_t at) {
  const F32 old = load(state.largest + at), added = load(block.largest + at);
  const F32 largest = max(old, added);
  const F32 base = select(equal(largest, set1(-kInfinity)), zero_f32(), largest);
  const MergeFactors f{exp2_of_negative(old - base, kExp2Fit),
                       exp2_of_negative(added - base, kExp2Fit)};
  store(state.largest + at, largest);
  store(state.sum + at, fma(load(block.sum + at), f.block, load(state.sum + at) * f.before));
  return f;
}

inline void merge(const AttentionState& state, const AttentionState& block, int64_t value_size,
                  int64_t pitch) {
  for (int64_t at = 0; at < pitch; at += kLanes) {
    const MergeFactors f = merge_sums(state, block, at);
    for (int64_t i = at; i < value_size * pitch; i += pitch) {
      store(state.output + i,
            fma(load(block.output + i), f.block, load(state.output + i) * f.before));
    }
  }
}

inline void merge_rows(const AttentionState& state, const AttentionState& block, int64_t value_size,
                       int64_t rows) {
  for (int64_t at = 0; at < rows; at += kLanes) {
    const MergeFactors f = merge_sums(state, block, at);
    float before[kLanes], added[kLanes];
    store(before, f.before);
    store(added, f.block);
    for (int64_t row = at; row < rows && row < at + kLanes; ++row) {
      const F32 x = set1(before[row - at]), y = set1(added[row - at]);
      for (int64_t i = 0; i < value_size; i += kLanes) {
        const Mask mask = mask_first(value_size - i < kLanes ? value_size - i : kLanes);
        float* to = state.output + row * value_size + i;
        store(to, fma(load(block.output + row * value_size + i, mask), y, load(to, mask) * x),
              mask);
      }
    }
  }
}

inline void factors(const float* largest, const float* sum, const float* sinks, int64_t pitch,
                    float* to) {
  for (int64_t at = 0; at < pitch; at += kLanes) {
    const F32 top = load(largest + at), all = load(sum + at);
    F32 y = set1(1.0F) / all;
    if (sinks != nullptr) {
      const F32 sink = load(sinks + at);
      const F32 base = max(top, sink);
      const F32 f = exp2_of_negative(top - base, kExp2Fit);
      y = f / fma(all, f, exp2_of_negative(sink - base, kExp2Fit));
    }
    // Tests the sum: a NaN persists in it, but not in the maximum when masked keys follow.
    store(to + at, select(equal(all, zero_f32()), zero_f32(), y));
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Prefill kernels over the vector layer. Each element is one chain of FMAs in ascending order, so
// its bits do not depend on the tile.
#pragma once

#include "targets/cpu/kernels/attention/attention_softmax.h"
#include "targets/cpu/kernels/simd/transpose_lanes.h"

namespace lathe::cpu {
namespace {

constexpr int kRowVectors = kRegisters == 32 ? 3 : 2;
constexpr int kAccumulators = kRegisters == 32 ? 24 : 12;

struct SingleStep {  // f32
  static constexpr bool kPairs = false;
  // Integer accumulators, scaled to f32 by a factor per column.
  static constexpr bool kIntegers = false;
  static F32 spread(const std::byte* a) {
    float x;
    __builtin_memcpy(&x, a, sizeof x);
    return set1(x);
  }
  static F32 add(F32 acc, F32 a, F32 b) { return fma(a, b, acc); }
};
struct PairStep {  // two bf16
  static constexpr bool kPairs = true;
  static constexpr bool kIntegers = false;
  static F32 spread(const std::byte* a) {
    int32_t x;
    __builtin_memcpy(&x, a, sizeof x);
    return from_bits(set1(x));
  }
  static F32 add(F32 acc, F32 a, F32 b) { return dot_bf16(acc, bits_of(a), bits_of(b)); }
};

// One step of a tile: acc[u][·] += a[u] · b[·]. One pointer addresses three rows of a.
template <class Step, bool kRows, int kV, int kU, int kPointers>
inline __attribute__((always_inline)) void gemm_step(const std::byte* const (&row)[kPointers],
                                                     int64_t offset, int64_t a_row, const float* b,
                                                     F32 (&acc)[kU][kV]) {
  F32 x[kV];
#pragma GCC unroll 4
  for (int v = 0; v < kV; ++v) x[v] = load(b + v * kLanes);
#pragma GCC unroll 24
  for (int u = 0; u < kU; ++u) {
    const F32 y = Step::spread(kRows ? row[u / 3] + (u % 3) * a_row + offset
                                     : row[0] + offset + int64_t{4} * u);
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) acc[u][v] = Step::add(acc[u][v], y, x[v]);
  }
  __asm__ volatile("" ::: "memory");  // keeps loads in their step: no register is free
}

// c[u][·] = Σ over t of a[u, t] · b[t][·], for kU values of u. Units of a are 4 bytes, with
// `a_step` bytes from t to t + 1. Those of u are contiguous or, if kRows, `a_row` bytes apart.
template <class Step, bool kRows, int kV, int kU>
inline void gemm_tile(const std::byte* a, int64_t a_row, int64_t a_step, const float* b,
                      int64_t steps, float* c, const float* factors) {
  constexpr int64_t kPitch = kV * kLanes;
  constexpr int kPointers = kRows ? (kU + 2) / 3 : 1;
  F32 acc[kU][kV];
#pragma GCC unroll 24
  for (int u = 0; u < kU; ++u) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) acc[u][v] = zero_f32();
  }
  const std::byte* row[kPointers];
#pragma GCC unroll 8
  for (int g = 0; g < kPointers; ++g) row[g] = a + 3 * g * a_row;
  const int64_t step = kRows ? 4 : a_step;
  const auto advance = [&](int64_t by) {
#pragma GCC unroll 8
    for (int g = 0; g < kPointers; ++g) {
      row[g] += by * step;
      __asm__("" : "+r"(row[g]));  // a pointer per row would spill
    }
    b += by * kPitch;
  };
  // Four steps per iteration: pointer additions compete with FMAs for ports.
  for (int64_t t = steps / 4; t > 0; --t) {
    gemm_step<Step, kRows, kV, kU>(row, 0, a_row, b, acc);
    gemm_step<Step, kRows, kV, kU>(row, step, a_row, b + kPitch, acc);
    gemm_step<Step, kRows, kV, kU>(row, 2 * step, a_row, b + 2 * kPitch, acc);
    gemm_step<Step, kRows, kV, kU>(row, 3 * step, a_row, b + 3 * kPitch, acc);
    advance(4);
  }
  for (int64_t t = steps % 4; t > 0; --t) {
    gemm_step<Step, kRows, kV, kU>(row, 0, a_row, b, acc);
    advance(1);
  }
#pragma GCC unroll 24
  for (int u = 0; u < kU; ++u) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      F32 x = acc[u][v];
      if constexpr (Step::kIntegers) x = to_f32(bits_of(x)) * load(factors + v * kLanes);
      store(c + u * kPitch + v * kLanes, x);
    }
  }
}

// All `count` values of u: full tiles, then smaller ones.
template <class Step, bool kRows, int kV, int kU = kAccumulators / kV>
inline void gemm(const std::byte* a, int64_t a_row, int64_t a_step, const float* b, int64_t steps,
                 float* c, int64_t count, AttentionPrefetch& next, const float* factors = nullptr) {
  int64_t u = 0;
  for (; u + kU <= count; u += kU) {
    prefetch(next);
    gemm_tile<Step, kRows, kV, kU>(a + u * (kRows ? a_row : 4), a_row, a_step, b, steps,
                                   c + u * kV * kLanes, factors);
  }
  if constexpr (kU > 1) {
    constexpr int kNext = kU > 12 ? 12 : kU > 6 ? 6 : kU > 4 ? 4 : kU > 2 ? 2 : 1;
    if (u < count) {
      gemm<Step, kRows, kV, kNext>(a + u * (kRows ? a_row : 4), a_row, a_step, b, steps,
                                   c + u * kV * kLanes, count - u, next, factors);
    }
  }
}

template <class Step, int kV>
void prefill_tile(const AttentionBlock& b) {
  constexpr int kUnit = Step::kPairs ? 2 : 1;
  gemm<Step, true, kV>(static_cast<const std::byte*>(b.k), b.k_stride, 4,
                       static_cast<const float*>(b.q), b.size / kUnit, b.scores, b.keys, *b.next_k);
  softmax<Step::kPairs, kV>(b);
  const void* weights = Step::kPairs ? b.weights : b.scores;
  gemm<Step, false, kV>(static_cast<const std::byte*>(b.v), 0, b.v_stride,
                        static_cast<const float*>(weights), (b.keys + kUnit - 1) / kUnit, b.output,
                        b.value_size, *b.next_v);
}

template <class Step>
void prefill_block(const AttentionBlock& b) {
  switch (b.pitch / kLanes) {
    case 1:
      return prefill_tile<Step, 1>(b);
    case 2:
      return prefill_tile<Step, 2>(b);
#if defined(__AVX512F__)
    case 3:
      return prefill_tile<Step, 3>(b);
    default:
      return prefill_tile<Step, 4>(b);
#else
    default:
      return;
#endif
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Kernels of linear_attention_*.cpp: vectors run along the columns of a state.
#pragma once

#include "targets/cpu/kernels/recurrent/linear_attention_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

constexpr int kStripVectors = kRegisters == 32 ? 4 : 2;
constexpr int kSumPhases = 2;  // accumulators, to hide the FMA latency

// kCount vectors, the last of which may be partial.
template <int kCount, bool kShort>
struct Strip {
  Mask last;

  void read(const float* p, F32 (&x)[kCount]) const {
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      x[v] = kShort && v + 1 == kCount ? load(p + v * kLanes, last) : load(p + v * kLanes);
    }
  }
  void write(float* p, const F32 (&x)[kCount]) const {
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      if (kShort && v + 1 == kCount) {
        store(p + v * kLanes, x[v], last);
      } else {
        store(p + v * kLanes, x[v]);
      }
    }
  }

  // Σ factors[i] · s[i][·], with separate accumulators for even and odd keys.
  void weighted_sum(const float* factors, const float* s, int64_t pitch, int64_t keys,
                    F32 (&sum)[kCount]) const {
    F32 odd[kCount];
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) sum[v] = odd[v] = zero_f32();
    int64_t i = 0;
    for (; i + kSumPhases <= keys; i += kSumPhases) {
      add(factors[i], s + i * pitch, sum);
      add(factors[i + 1], s + (i + 1) * pitch, odd);
    }
    if (i < keys) add(factors[i], s + i * pitch, sum);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) sum[v] = sum[v] + odd[v];
  }
  void add(float factor, const float* row, F32 (&sum)[kCount]) const {
    F32 x[kCount];
    read(row, x);
    const F32 by = set1(factor);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) sum[v] = fma(by, x[v], sum[v]);
  }

  // to[i] = factors[i] · from[i] + k[i] · update; also accumulates the first output.
  void update_state(const LinearToken& x, const F32 (&update)[kCount], F32 (&sum)[kCount]) const {
    F32 odd[kCount];
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) sum[v] = odd[v] = zero_f32();
    int64_t i = 0;
    for (; i + kSumPhases <= x.keys; i += kSumPhases) {
      update_row(x, i, update, sum);
      update_row(x, i + 1, update, odd);
    }
    if (i < x.keys) update_row(x, i, update, sum);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) sum[v] = sum[v] + odd[v];
  }
  void update_row(const LinearToken& x, int64_t i, const F32 (&update)[kCount],
                  F32 (&sum)[kCount]) const {
    F32 s[kCount];
    read(x.from + i * x.from_pitch, s);
    const F32 factor = set1(x.factors[i]), k = set1(x.k[i]), q = set1(x.q[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      s[v] = fma(k, update[v], factor * s[v]);
      sum[v] = fma(q, s[v], sum[v]);
    }
    write(x.to + i * x.to_pitch, s);
  }

  void run(const LinearToken& x) const {
    F32 update[kCount], sum[kCount];
    read(x.v, update);
    const F32 beta = set1(x.beta), scale = set1(x.scale);
    if (x.decayed != nullptr) {
      weighted_sum(x.decayed, x.from, x.from_pitch, x.keys, sum);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) update[v] = (update[v] - sum[v]) * beta;
    }
    update_state(x, update, sum);
    for (int64_t output = 0;;) {
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) sum[v] = sum[v] * scale;
      write(x.y + output * x.y_pitch, sum);
      if (++output == x.outputs) break;
      weighted_sum(x.q + output * x.q_pitch, x.to, x.to_pitch, x.keys, sum);
    }
  }
};

template <int kCount>
inline void run_strip(const LinearToken& x) {
  const int64_t last = x.columns - (kCount - 1) * kLanes;
  if (last == kLanes) return Strip<kCount, false>{mask_first(kLanes)}.run(x);
  Strip<kCount, true>{mask_first(last)}.run(x);
}

void linear_token(const LinearToken& x) {
  switch ((x.columns + kLanes - 1) / kLanes) {
    case 1:
      return run_strip<1>(x);
    case 2:
      return run_strip<2>(x);
#if defined(__AVX512F__)
    case 3:
      return run_strip<3>(x);
    default:
      return run_strip<4>(x);
#else
    default:
      return;
#endif
  }
}

constexpr LinearAttentionKernels kLinearAttention{kStripVectors * kLanes, linear_token};

}  // namespace
}  // namespace lathe::cpu

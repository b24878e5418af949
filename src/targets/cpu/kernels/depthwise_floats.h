// SPDX-License-Identifier: MIT
// Depthwise convolution of f32 with a kernel of known size: blocks of outputs, all their channels.
#pragma once

#include "targets/cpu/kernels/depthwise_parts.h"

namespace lathe::cpu {
namespace {

// silu of kRows rows at `from`, side by side, to `out`: as many vectors at a time as registers
// hold; on Zen 4 seven take 17 cycles each, four 19.
template <int kRows, int kVectors, bool kTail>
__attribute__((noinline)) void silu_kept(const float* from, float* out, int64_t stride, float a,
                                         Mask tail) {
  constexpr int kSome = kRegisters == 32 ? 7 : 4;
  const auto some = [&]<int kCount>(int first) __attribute__((always_inline)) {
    F32 y[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) y[i] = load(from + (first + i) * kLanes);
    if (a != 1) {
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) y[i] = y[i] * set1(a);
    }
    sigmoid_each(y);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int at = first + i;
      const F32 x = load(from + at * kLanes) * y[i];
      float* to = out + at / kVectors * stride + at % kVectors * kLanes;
      kTail ? store(to, x, tail) : store(to, x);
    }
  };
  constexpr int kAll = kRows * kVectors, kLeft = kAll % kSome;
  for (int first = 0; first + kSome <= kAll; first += kSome) some.template operator()<kSome>(first);
  if constexpr (kLeft > 0) some.template operator()<kLeft>(kAll - kLeft);
}

template <int kVectors>
using FloatSums = F32[kDepthwiseOutputs][kVectors];

// Adds one row of the kernel to the sums of a block whose first output sees column `first` of x at
// `x`; of `behind` on none is there.
template <int kKernel, int kStride, int kVectors, bool kTail>
inline __attribute__((always_inline)) void add_floats(const DepthwiseRow& row, int64_t first,
                                                      int64_t behind, const float* x,
                                                      int64_t x_pitch, const float* w,
                                                      int64_t w_pitch, Mask tail,
                                                      FloatSums<kVectors>& sums) {
  constexpr int kLast = (kDepthwiseOutputs - 1) * kStride;  // that the last output sees first
  F32 weights[kKernel][kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kKernel; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[k][v] = load(w + k * w_pitch + v * kLanes);
  }
#pragma GCC unroll 32
  for (int j = 0; j < kLast + kKernel; ++j) {
    if ((j < kKernel - 1 && first + j < 0) || (j > kLast && j >= behind)) continue;
    F32 column[kVectors];
    load_column<float, kVectors, kTail>(row, x + j * x_pitch, tail, column);
#pragma GCC unroll 16
    for (int t = 0; t < kDepthwiseOutputs; ++t) {
      const int k = j - t * kStride;
      if (k < 0 || k >= kKernel) continue;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = fma(column[v], weights[k][v], sums[t][v]);
    }
    __asm__ volatile("" ::: "memory");  // no load moves to another column: registers are taken
  }
}

// What becomes of a block's sums, at `out`.
template <int kVectors, bool kTail>
inline __attribute__((always_inline)) void end_floats(const DepthwiseRow& row,
                                                      const DepthwiseShort& epilogue,
                                                      int64_t output, int64_t channel, float* out,
                                                      Mask tail, FloatSums<kVectors>& sums) {
  constexpr int kOutputs = kDepthwiseOutputs, kWidth = kVectors * kLanes;
  const int64_t stride = row.out_stride / 4;
  const auto each_sum = [&](auto&& f) __attribute__((always_inline)) {
    F32 bias[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      bias[v] = set1(-0.0F);  // which changes no number, not even zeros
      if (epilogue.bias == nullptr) continue;
      const float* from = epilogue.bias + channel + v * kLanes;
      bias[v] = kTail ? load(from, tail) : load(from);
    }
#pragma GCC unroll 16
    for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) f(t, v, sums[t][v] + bias[v]);
    }
  };
  if (!epilogue.fits || epilogue.has_silu) {
    alignas(64) float kept[kOutputs * kWidth];
    each_sum([&](int t, int v, F32 x)
                 __attribute__((always_inline)) { store(kept + t * kWidth + v * kLanes, x); });
    epilogue.fits ? silu_kept<kOutputs, kVectors, kTail>(kept, out, stride, epilogue.a, tail)
                  : finish_sums<float>(row, kept, kWidth, kOutputs, output, channel);
    return;
  }
  const F32 low = set1(epilogue.low);
  const auto put = [&](int t, int v, F32 x) __attribute__((always_inline)) {
    float* to = out + t * stride + v * kLanes;
    kTail ? store(to, x, tail) : store(to, x);
  };
  if (epilogue.has_hard_swish) {
    each_sum([&](int t, int v, F32 x)
                 __attribute__((always_inline)) { put(t, v, hard_swish(max(low, x))); });
  } else {
    each_sum([&](int t, int v, F32 x) __attribute__((always_inline)) { put(t, v, max(low, x)); });
  }
}

// Blocks from one channel on to `end`, side by side in x and in the result; kTail: one vector each,
// the last one may be cut. Sums end in one go: the next block's products hide that as far as
// nothing lies between the two, no call nor a choice for each output.
template <int kKernel, int kStride, int kVectors, bool kTail>
__attribute__((noinline)) void float_blocks(const DepthwiseRow& row, const DepthwiseShort& epilogue,
                                            int64_t output, int64_t channel, int64_t end) {
  constexpr int kWidth = kVectors * kLanes;
  const int64_t first = output * kStride - row.pad, behind = row.input - first;
  const int64_t x_pitch = row.x_pitch, w_pitch = row.w_pitch, row_count = row.row_count;
  const DepthwiseTapRow* rows = row.rows;
  for (; channel < end; channel += kWidth) {
    const Mask tail = mask_first(kTail && end - channel < kLanes ? end - channel : kLanes);
    char* out = output_at(row, output, channel, 4);
    if (epilogue.fits) expect_outputs<kDepthwiseOutputs, kWidth * 4>(row, out);
    FloatSums<kVectors> sums;
#pragma GCC unroll 16
    for (int t = 0; t < kDepthwiseOutputs; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = zero_f32();
    }
    for (int64_t r = 0; r < row_count; ++r) {
      const float* x = static_cast<const float*>(rows[r].x) + first * x_pitch + channel;
      add_floats<kKernel, kStride, kVectors, kTail>(row, first, behind, x, x_pitch,
                                                    rows[r].weights + channel, w_pitch, tail, sums);
    }
    end_floats<kVectors, kTail>(row, epilogue, output, channel, reinterpret_cast<float*>(out), tail,
                                sums);
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// f32 depthwise convolution with a compile-time kernel size: blocks of outputs, all channels.
#pragma once

#include "targets/cpu/kernels/depthwise/depthwise_common.h"

namespace lathe::cpu {
namespace {

// SiLU of kRows contiguous rows at `from`, stored to `out`. Groups are as large as registers allow:
// on Zen 4 seven vectors take 17 cycles each, four take 19.
template <int kRows, int kVectors>
__attribute__((noinline)) void silu_from_memory(const float* from, float* out, int64_t stride,
                                                float a) {
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
      store(out + at / kVectors * stride + at % kVectors * kLanes, load(from + at * kLanes) * y[i]);
    }
  };
  constexpr int kAll = kRows * kVectors, kLeft = kAll % kSome;
  for (int first = 0; first + kSome <= kAll; first += kSome) some.template operator()<kSome>(first);
  if constexpr (kLeft > 0) some.template operator()<kLeft>(kAll - kLeft);
}

template <int kVectors>
using FloatSums = F32[kDepthwiseOutputs][kVectors];

// Accumulates one kernel row for a block whose first output reads column `first` of x, at `x`;
// columns from `first_outside` on are outside. Calls `end` with each complete output while the FMAs
// of others continue.
template <int kKernel, int kStride, int kVectors, class End>
inline __attribute__((always_inline)) void add_floats(int64_t first, int64_t first_outside,
                                                      const float* x, int64_t x_pitch,
                                                      const float* w, int64_t w_pitch,
                                                      FloatSums<kVectors>& sums, End&& end) {
  constexpr int kOutputs = kDepthwiseOutputs;
  constexpr int kLast = (kOutputs - 1) * kStride;  // first column of the last output
  F32 weights[kKernel][kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kKernel; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[k][v] = load(w + k * w_pitch + v * kLanes);
  }
  const auto is_inside = [&](int j) __attribute__((always_inline)) {
    return j < kKernel - 1 ? first + j >= 0 : j <= kLast || j < first_outside;
  };
  using Column = F32[kVectors];
  const auto load_to = [&](Column& column, int j) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = load(x + j * x_pitch + v * kLanes);
  };
  const auto multiply = [&](const Column& column, int t, int k) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      sums[t][v] = fma(column[v], weights[k][v], sums[t][v]);
      __asm__ volatile("" : : "v"(sums[t][v].v));
    }
    // Barrier: the compiler must not move loads or FMAs across columns, which would spill
    // registers.
    __asm__ volatile("" ::: "memory");
  };
  if constexpr (kKernel == 3 && kStride == 2) {
    // In column order, consecutive FMAs of an accumulator would be too close to hide the latency.
    Column even[2], odd;
#pragma GCC unroll 16
    for (int t = 0; t < kOutputs + 2; ++t) {
      if (t <= kOutputs && is_inside(2 * t)) {
        load_to(even[t % 2], 2 * t);
        if (t < kOutputs) multiply(even[t % 2], t, 0);
      }
      if (t >= 1 && t <= kOutputs && is_inside(2 * t - 1)) {
        load_to(odd, 2 * t - 1);
        multiply(odd, t - 1, 1);
      }
      if (t < 2) continue;
      if (is_inside(2 * t - 2)) multiply(even[(t - 1) % 2], t - 2, 2);
      end(t - 2);
    }
    return;
  }
#pragma GCC unroll 32
  for (int j = 0; j < kLast + kKernel; ++j) {
    if (is_inside(j)) {
      Column column;
      load_to(column, j);
#pragma GCC unroll 16
      for (int t = 0; t < kOutputs; ++t) {
        const int k = j - t * kStride;
        if (k >= 0 && k < kKernel) multiply(column, t, k);
      }
    }
    const int done = j - (kKernel - 1);
    if (done >= 0 && done % kStride == 0) end(done / kStride);
  }
}

// Computes blocks of whole vectors from `channel` to `end`, contiguous in x and y.
template <int kKernel, int kStride, int kVectors>
inline __attribute__((always_inline)) void float_blocks(const DepthwiseRow& row,
                                                        const DepthwiseEpilogue& epilogue,
                                                        int64_t output, int64_t channel,
                                                        int64_t end) {
  constexpr int kOutputs = kDepthwiseOutputs, kWidth = kVectors * kLanes;
  const int64_t first = output * kStride - row.pad, first_outside = row.input - first;
  const int64_t x_pitch = row.x_pitch, w_pitch = row.w_pitch, last_row = row.row_count - 1;
  const DepthwiseTapRow* rows = row.rows;
  const bool via_memory = !epilogue.fits || epilogue.has_silu;
  const F32 low = set1(via_memory ? -__builtin_inff() : epilogue.low);
  const int64_t stride = row.out_stride / 4;
  for (; channel < end; channel += kWidth) {
    auto* out = reinterpret_cast<float*>(output_at(row, output, channel, 4));
    if (epilogue.fits) {
      prefetch_outputs<kOutputs, kWidth * 4>(row, reinterpret_cast<char*>(out));
    }
    F32 bias[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      bias[v] = set1(-0.0F);  // -0 changes no value, not even zeros
      if (epilogue.bias == nullptr) continue;
      bias[v] = load(epilogue.bias + channel + v * kLanes);
    }
    FloatSums<kVectors> sums;
#pragma GCC unroll 16
    for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = zero_f32();
    }
    const auto add = [&](int64_t r, auto&& done) __attribute__((always_inline)) {
      const float* x = static_cast<const float*>(rows[r].x) + first * x_pitch + channel;
      add_floats<kKernel, kStride, kVectors>(first, first_outside, x, x_pitch,
                                             rows[r].weights + channel, w_pitch, sums, done);
    };
    for (int64_t r = 0; r < last_row; ++r) add(r, [](int) {});
    alignas(64) float sums_in_memory[kOutputs * kWidth];
    float* const to = via_memory ? sums_in_memory : out;
    const int64_t pitch = via_memory ? kWidth : stride;
    // Each accumulator is stored as soon as it is complete. On Zen 4 an immediate store overlaps
    // FMAs; a delayed one does not.
    const auto store_output = [&](int t, auto&& f) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const F32 x = f(max(low, sums[t][v] + bias[v]));
        store(to + t * pitch + v * kLanes, x);
        __asm__ volatile("" ::: "memory");
      }
    };
    if (epilogue.has_hard_swish) {
      add(last_row, [&](int t) __attribute__((always_inline)) {
        store_output(t, [](F32 x) __attribute__((always_inline)) { return hard_swish(x); });
      });
      continue;
    }
    add(last_row, [&](int t) __attribute__((always_inline)) {
      store_output(t, [](F32 x) __attribute__((always_inline)) { return x; });
    });
    if (!via_memory) continue;
    epilogue.fits ? silu_from_memory<kOutputs, kVectors>(sums_in_memory, out, stride, epilogue.a)
                  : apply_epilogue<float>(row, sums_in_memory, kWidth, kOutputs, output, channel);
  }
}

// True if all blocks of a row are full and read columns inside the input. The last block may
// recompute earlier outputs and channels, so it must not overwrite a residual.
template <int kKernel, int kStride>
inline bool has_float_blocks(const DepthwiseRow& row) {
  const int64_t count = row.end - row.begin;
  if (row.row_count == 0 || count < kDepthwiseOutputs || row.channels < kLanes) return false;
  const bool repeats = count % kDepthwiseOutputs != 0 || row.channels % kLanes != 0;
  if (repeats && row.epilogue != nullptr && row.epilogue->residual != nullptr) return false;
  return row.begin * kStride - row.pad + kKernel > 0 &&
         (row.end - 1) * kStride - row.pad < row.input;
}

template <int kKernel, int kStride>
__attribute__((noinline)) void float_row(const DepthwiseRow& row,
                                         const DepthwiseEpilogue& epilogue) {
  constexpr int kOutputs = kDepthwiseOutputs, kWide = kDepthwiseVectors * kLanes;
  const int64_t blocks = (row.end - row.begin + kOutputs - 1) / kOutputs;
  MemoryPrefetcher input(row.to_read, blocks);
  MemoryPrefetcher output(row.to_write, blocks);
  const int64_t wide = row.channels / kWide * kWide;
  for (int64_t i = 0; i < blocks; ++i) {
    input.prefetch();
    output.prefetch();
    const int64_t o = i + 1 < blocks ? row.begin + i * kOutputs : row.end - kOutputs;
    float_blocks<kKernel, kStride, kDepthwiseVectors>(row, epilogue, o, 0, wide);
    for (int64_t c = wide; c < row.channels; c += kLanes) {
      const int64_t end = c + kLanes < row.channels ? c + kLanes : row.channels;
      float_blocks<kKernel, kStride, 1>(row, epilogue, o, end - kLanes, end);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Kernels of causal_conv_*.cpp.
#pragma once

#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/recurrent/causal_conv_table.h"

namespace lathe::cpu {
namespace {

// Four vectors at a time hide the latency of FMAs and of the activation.
template <class F>
inline void for_vectors(int64_t count, F&& f) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) f.template operator()<4>(i, mask_first(kLanes));
  for (; i < count; i += kLanes) {
    f.template operator()<1>(i, mask_first(count - i < kLanes ? count - i : kLanes));
  }
}

template <int kCount>
inline void finish(F32 (&sum)[kCount], bool silu, float* y, Mask last) {
  if (silu) activate(Activation::silu, 1, 0, sum);
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kCount; ++v) store(y + v * kLanes, sum[v]);
  store(y + (kCount - 1) * kLanes, sum[kCount - 1], last);
}

template <int kCount>
inline void read(const float* p, Mask last, F32 (&x)[kCount]) {
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kCount; ++v) x[v] = load(p + v * kLanes);
  x[kCount - 1] = load(p + (kCount - 1) * kLanes, last);
}

void conv_channels(const float* const* s, const float* w, int64_t pitch, int64_t taps,
                   const float* bias, bool silu, float* y, int64_t count) {
  for_vectors(count, [&]<int kCount>(int64_t at, Mask last) {
    F32 sum[kCount], x[kCount], factor[kCount];
    read(bias + at, last, sum);
    for (int64_t j = 0; j < taps; ++j) {
      read(s[j] + at, last, x);
      read(w + j * pitch + at, last, factor);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) sum[v] = fma(factor[v], x[v], sum[v]);
    }
    finish(sum, silu, y + at, last);
  });
}

void conv_rows(const float* s, const float* w, int64_t pitch, int64_t taps, int64_t dilation,
               float bias, bool silu, float* y, int64_t count) {
  for_vectors(count, [&]<int kCount>(int64_t at, Mask last) {
    F32 sum[kCount], x[kCount];
#pragma GCC unroll 4
    for (F32& each : sum) each = set1(bias);
    for (int64_t j = 0; j < taps; ++j) {
      const F32 factor = set1(w[j * pitch]);
      read(s + at + j * dilation, last, x);
#pragma GCC unroll 4
      for (int v = 0; v < kCount; ++v) sum[v] = fma(factor, x[v], sum[v]);
    }
    finish(sum, silu, y + at, last);
  });
}

// A constant length lets the compiler interleave in registers.
template <class F>
inline void with_length(int64_t length, F&& f) {
  if (length == 1) return f([] { return int64_t{1}; });
  if (length == 2) return f([] { return int64_t{2}; });
  if (length == 3) return f([] { return int64_t{3}; });
  f([length] { return length; });
}

void spread(const float* from, int64_t channels, int64_t length, float* to, int64_t pitch) {
  with_length(length, [&](auto known) {
    for (int64_t t = 0; t < known(); ++t) {
      for (int64_t c = 0; c < channels; ++c) to[t * pitch + c] = from[c * known() + t];
    }
  });
}

void collect(const float* const* from, int64_t channels, int64_t length, float* to) {
  with_length(length, [&](auto known) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < known(); ++t) to[c * known() + t] = from[t][c];
    }
  });
}

constexpr CausalConvKernels kCausalConv{conv_channels, conv_rows, spread, collect};

}  // namespace
}  // namespace lathe::cpu

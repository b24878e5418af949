// SPDX-License-Identifier: MIT
// Causal convolution kernels, one table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct CausalConvKernels {
  // Channels of one token: y[c] = f(bias[c] + Σ_j w[j · pitch + c] · s[j][c]).
  void (*channels)(const float* const* s, const float* w, int64_t pitch, int64_t taps,
                   const float* bias, bool silu, float* y, int64_t count);
  // Tokens of one channel: y[t] = f(bias + Σ_j w[j · pitch] · s[t + j · dilation]).
  void (*rows)(const float* s, const float* w, int64_t pitch, int64_t taps, int64_t dilation,
               float bias, bool silu, float* y, int64_t count);
  // to[t · pitch + c] = from[c · length + t], and the inverse.
  void (*spread)(const float* from, int64_t channels, int64_t length, float* to, int64_t pitch);
  void (*collect)(const float* const* from, int64_t channels, int64_t length, float* to);
};

extern const CausalConvKernels kCausalConvAvx2;
extern const CausalConvKernels kCausalConvAvx512;

}  // namespace lathe::cpu

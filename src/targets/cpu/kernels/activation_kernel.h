// SPDX-License-Identifier: MIT
// The activations on vectors, with the formulas of the ops.
#pragma once

#include "targets/cpu/kernels/simd.h"
#include "targets/cpu/kernels/vector_ops.h"

namespace lathe::cpu {
namespace {

inline F32 relu(F32 x) { return max(zero_f32(), x); }
inline F32 clip(F32 x, F32 low, F32 high) { return min(high, max(low, x)); }
inline F32 leaky_relu(F32 x, F32 a) { return select(less(x, zero_f32()), x * a, x); }
inline F32 silu(F32 x, F32 a) { return x * sigmoid(x * a); }
inline F32 elu(F32 x, F32 a) { return select(less(x, zero_f32()), expm1(x) * a, x); }
inline F32 hard_sigmoid(F32 x, F32 a, F32 b) { return max(zero_f32(), min(set1(1.0F), x * a + b)); }
inline F32 hard_swish(F32 x) {
  const F32 y = x * set1(static_cast<float>(1.0 / 6)) + set1(0.5F);
  return x * max(zero_f32(), min(set1(1.0F), y));
}
inline F32 gelu(F32 x) {
  return x * set1(0.5F) * (set1(1.0F) + erf(x * set1(static_cast<float>(0.70710678118654752))));
}
inline F32 gelu_tanh(F32 x) {
  const F32 y = x + x * x * x * set1(0.044715F);
  return x * set1(0.5F) * (set1(1.0F) + tanh(y * set1(static_cast<float>(0.79788456080286536))));
}

// Of `count` vectors in memory, in place, one after another: the processor overlaps them by itself,
// and each alone leaves registers for all constants.
inline __attribute__((noinline)) void activate_stored(Activation f, float a, float b, float* x,
                                                      int count) {
  const auto each = [=](auto function) __attribute__((always_inline)) {
    for (int i = 0; i < count; ++i) store(x + i * kLanes, function(load(x + i * kLanes)));
  };
  const F32 va = set1(a), vb = set1(b);
  switch (f) {
    case Activation::relu:
      return each([](F32 v) { return relu(v); });
    case Activation::leaky_relu:
      return each([=](F32 v) { return leaky_relu(v, va); });
    case Activation::clip:
      return each([=](F32 v) { return clip(v, va, vb); });
    case Activation::sigmoid:
      return each([](F32 v) { return sigmoid(v); });
    case Activation::silu:
      if (a == 1) return each([](F32 v) { return v * sigmoid(v); });
      return each([=](F32 v) { return silu(v, va); });
    case Activation::tanh:
      return each([](F32 v) { return tanh(v); });
    case Activation::gelu:
      return each([](F32 v) { return gelu(v); });
    case Activation::gelu_tanh:
      return each([](F32 v) { return gelu_tanh(v); });
    case Activation::elu:
      return each([=](F32 v) { return elu(v, va); });
    case Activation::hard_sigmoid:
      return each([=](F32 v) { return hard_sigmoid(v, va, vb); });
    case Activation::hard_swish:
      return each([](F32 v) { return hard_swish(v); });
    case Activation::exp:
      return each([](F32 v) { return exp(v); });
    case Activation::erf:
      return each([](F32 v) { return erf(v); });
  }
}

// Of vectors in registers, which the longer functions need: they wait in memory.
template <int kCount>
inline __attribute__((always_inline)) void activate(Activation f, float a, float b,
                                                    F32 (&x)[kCount]) {
  alignas(64) float stored[kCount * kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) store(stored + i * kLanes, x[i]);
  activate_stored(f, a, b, stored, kCount);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) x[i] = load(stored + i * kLanes);
}

}  // namespace
}  // namespace lathe::cpu

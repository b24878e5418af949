// SPDX-License-Identifier: MIT
// Activations on vectors, with the formulas of the ops.
#pragma once

#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/kernels/simd/simd.h"

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
template <int kCount>
inline __attribute__((always_inline)) void gelu_each(F32 (&x)[kCount]) {
  const F32 magic = set1(0x1.8p+23F);
  F32 a[kCount], t[kCount], k[kCount], r[kCount];
  each(a, [&](int i) { return min(set1(10.5F), abs(x[i])); });
  polynomial_each(t, a, fits::kLogNormalTail);
  each(t, [&](int i) { return max(set1(-127.0F), t[i]); });
  each(k, [&](int i) { return t[i] + magic; });
  each(r, [&](int i) { return k[i] - magic; });
  each(r, [&](int i) { return t[i] - r[i]; });
  polynomial_each(t, r, fits::kExp2);
  each(t, [&](int i) { return fma(t[i], r[i], set1(1.0F)); });
  each(k, [&](int i) { return power_of_two(bits_of(k[i])); });  // the magic number is shifted out
  each(t, [&](int i) { return t[i] * k[i]; });
  each(x, [&](int i) { return fnma(a[i], t[i], relu(x[i])); });
}
inline F32 gelu_tanh(F32 x) {
  const F32 y = x + x * x * x * set1(0.044715F);
  return max(set1(-64.0F), x) * set1(0.5F) *
         (set1(1.0F) + tanh(y * set1(static_cast<float>(0.79788456080286536))));
}

template <int kCount>
inline __attribute__((always_inline)) void silu_each(F32 (&x)[kCount], float a) {
  F32 y[kCount];
  each(y, [&](int i) { return x[i] * set1(a); });
  sigmoid_each(y);
  each(x, [&](int i) { return x[i] * y[i]; });
}

// Applies f in place to vectors in memory, in groups: GELU's and SiLU's dependency chains are too
// long for out-of-order execution to overlap single vectors.
template <class F>
inline __attribute__((always_inline)) void activate_groups(float* x, int64_t count, F&& f) {
  constexpr int kGroupVectors = kRegisters == 32 ? 4 : 2;
  int64_t at = 0;
  const auto group = [&]<int kCount>() __attribute__((always_inline)) {
    F32 v[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) v[i] = load(x + (at + i) * kLanes);
    f(v);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) store(x + (at + i) * kLanes, v[i]);
    at += kCount;
  };
  while (count - at >= kGroupVectors) group.template operator()<kGroupVectors>();
  while (at < count) group.template operator()<1>();
}

// Applies an activation in place to `count` vectors.
inline __attribute__((noinline)) void activate_stored(Activation f, float a, float b, float* x,
                                                      int64_t count) {
  const auto each_of = [=](auto function) __attribute__((always_inline)) {
    for (int64_t i = 0; i < count; ++i) store(x + i * kLanes, function(load(x + i * kLanes)));
  };
  const F32 va = set1(a), vb = set1(b);
  switch (f) {
    case Activation::relu:
      return each_of([](F32 v) { return relu(v); });
    case Activation::leaky_relu:
      return each_of([=](F32 v) { return leaky_relu(v, va); });
    case Activation::clip:
      return each_of([=](F32 v) { return clip(v, va, vb); });
    case Activation::sigmoid:
      return each_of([](F32 v) { return sigmoid(v); });
    case Activation::silu:
      return activate_groups(x, count,
                             [=](auto& v) __attribute__((always_inline)) { silu_each(v, a); });
    case Activation::tanh:
      return each_of([](F32 v) { return tanh(v); });
    case Activation::gelu:
      return activate_groups(x, count,
                             [](auto& v) __attribute__((always_inline)) { gelu_each(v); });
    case Activation::gelu_tanh:
      return each_of([](F32 v) { return gelu_tanh(v); });
    case Activation::elu:
      return each_of([=](F32 v) { return elu(v, va); });
    case Activation::hard_sigmoid:
      return each_of([=](F32 v) { return hard_sigmoid(v, va, vb); });
    case Activation::hard_swish:
      return each_of([](F32 v) { return hard_swish(v); });
    case Activation::exp:
      return each_of([](F32 v) { return exp(v); });
    case Activation::erf:
      return each_of([](F32 v) { return erf(v); });
  }
}

// Applies an activation to vectors in registers. They are spilled to memory, since long activations
// need the registers.
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

// SPDX-License-Identifier: MIT
// Vector math functions with the operation order of src/ops/math for f32: bits and error bounds
// (ulp) are those of the reference. Include simd.h instead.
#pragma once

#if defined(__AVX512F__)
#include "targets/cpu/kernels/simd/simd_avx512.h"  // IWYU pragma: export
#else
#include "targets/cpu/kernels/simd/simd_avx2.h"  // IWYU pragma: export
#endif
#include "targets/cpu/kernels/simd/simd_math_fits.h"

namespace lathe::cpu {
namespace {

template <int kCount>
inline F32 polynomial(F32 x, const float (&fit)[kCount]) {
  F32 sum = set1(fit[kCount - 1]);
#pragma GCC unroll 16
  for (int i = kCount - 2; i >= 0; --i) sum = fma(sum, x, set1(fit[i]));
  return sum;
}

inline F32 abs(F32 x) { return from_bits(bits_of(x) & set1(0x7FFFFFFF)); }
inline F32 negate(F32 x) { return from_bits(bits_of(x) ^ set1(INT32_MIN)); }
inline F32 copysign(F32 x, F32 y) {
  return from_bits((bits_of(x) & set1(0x7FFFFFFF)) | (bits_of(y) & set1(INT32_MIN)));
}

// x = k ln 2 + r, |r| <= ln(2)/2.
struct ExpParts {
  F32 r;
  I32 k;
  F32 real_k;
};
inline ExpParts reduce_exp(F32 x) {
  const F32 magic = set1(0x1.8p+23F);
  const F32 shifted = x * set1(fits::kLog2E) + magic;
  const F32 k = shifted - magic;
  return {fnma(k, set1(fits::kLn2[1]), fnma(k, set1(fits::kLn2[0]), x)),
          bits_of(shifted) - bits_of(magic), k};
}
inline F32 power_of_two(I32 k) { return from_bits(shift_left<23>(k + set1(127))); }
// x · 2^k, rounded once where the result is subnormal.
inline F32 scale(F32 x, const ExpParts& by) {
#if defined(__AVX512F__)
  return {_mm512_scalef_ps(x.v, by.real_k.v)};
#else
  const I32 half = shift_right<1>(by.k);  // two steps, of which only the last one rounds
  return x * power_of_two(half) * power_of_two(by.k - half);
#endif
}
inline F32 expm1_near_zero(F32 r) { return fma(r * r, polynomial(r, fits::kExp), r); }
// A NaN is the second operand of both and passes through.
inline F32 clamp_exp(F32 x) { return min(set1(89.0F), max(set1(-105.0F), x)); }

// Requires x in the range of clamp_exp.
inline F32 exp_within(F32 x) {
  const ExpParts parts = reduce_exp(x);
  return scale(expm1_near_zero(parts.r) + set1(1.0F), parts);
}
// 1 ulp.
inline F32 exp(F32 x) { return exp_within(clamp_exp(x)); }
inline F32 expm1_of(const ExpParts& parts, F32 near_zero) {
  const F32 half = power_of_two(parts.k - set1(1));
  return fma(half, near_zero, half - set1(0.5F)) * set1(2.0F);
}
// 2 ulp.
inline F32 expm1(F32 x) {
  const ExpParts parts = reduce_exp(max(set1(-18.0F), clamp_exp(x)));
  const F32 y = expm1_of(parts, expm1_near_zero(parts.r));
  return select(less(abs(x), set1(0x1p-24F)), x, y);
}
// 2.5 ulp. Uses one exponential and one division: -t / (t + 2) for small |x| and 1 - 2q / (q + 1)
// otherwise, where t = exp(-2|x|) - 1 and q = exp(-2|x|).
inline F32 tanh(F32 x) {
  const F32 a = abs(x), one = set1(1.0F), two = set1(2.0F);
  const F32 doubled = a * set1(-2.0F);
  const ExpParts parts = reduce_exp(max(set1(-105.0F), doubled));
  const F32 near_zero = expm1_near_zero(parts.r);
  const F32 t = select(less(a, set1(0x1p-25F)), doubled, expm1_of(parts, near_zero));
  const F32 q = scale(near_zero + one, parts);
  const Choice small = less(a, set1(0.55F));
  const F32 quotient = select(small, negate(t), q * two) / select(small, t + two, q + one);
  return copysign(select(small, quotient, one - quotient), x);
}
// Applies one operation to several vectors. The barrier keeps this order: otherwise one vector's
// dependent operations fill the scheduler and block the others.
template <int kCount, class F>
inline __attribute__((always_inline)) void each(F32 (&to)[kCount], F&& f) {
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    to[i] = f(i);
    __asm__ volatile("" : "+v"(to[i].v));
  }
}
template <int kCount, int kFit>
inline __attribute__((always_inline)) void polynomial_each(F32 (&to)[kCount],
                                                           const F32 (&x)[kCount],
                                                           const float (&fit)[kFit]) {
  each(to, [&](int i) { return fma(set1(fit[kFit - 1]), x[i], set1(fit[kFit - 2])); });
#pragma GCC unroll 16
  for (int p = kFit - 3; p >= 0; --p)
    each(to, [&](int i) { return fma(to[i], x[i], set1(fit[p])); });
}
// exp_within for several vectors.
template <int kCount>
inline __attribute__((always_inline)) void exp_each(F32 (&x)[kCount]) {
  const F32 magic = set1(0x1.8p+23F);
  F32 k[kCount], t[kCount];
  each(k, [&](int i) { return x[i] * set1(fits::kLog2E); });
  each(k, [&](int i) { return k[i] + magic; });
  each(k, [&](int i) { return k[i] - magic; });
  each(x, [&](int i) { return fnma(k[i], set1(fits::kLn2[0]), x[i]); });
  each(x, [&](int i) { return fnma(k[i], set1(fits::kLn2[1]), x[i]); });
  polynomial_each(t, x, fits::kExp);
  each(t, [&](int i) { return fma(x[i] * x[i], t[i], x[i]); });
  each(t, [&](int i) { return t[i] + set1(1.0F); });
  each(x, [&](int i) { return scale(t[i], {x[i], bits_of(k[i] + magic) - bits_of(magic), k[i]}); });
}
// 2.5 ulp.
template <int kCount>
inline __attribute__((always_inline)) void sigmoid_each(F32 (&x)[kCount]) {
  const F32 one = set1(1.0F);
  F32 t[kCount], sum[kCount];
  each(t, [&](int i) { return max(set1(-105.0F), from_bits(bits_of(x[i]) | set1(INT32_MIN))); });
  exp_each(t);
  each(sum, [&](int i) { return t[i] + one; });
  // 1 where x is positive, else t, which is at most 1. A compare would occupy an FMA port.
  each(t, [&](int i) { return max(copysign(one, x[i]), t[i]); });
  each(x, [&](int i) { return t[i] / sum[i]; });
}
inline F32 sigmoid(F32 x) {
  F32 y[1] = {x};
  sigmoid_each(y);
  return y[0];
}
// 1.5 ulp.
template <int kCount>
inline __attribute__((always_inline)) void erf_each(F32 (&x)[kCount]) {
  F32 a[kCount], t[kCount];
  each(a, [&](int i) { return min(set1(4.0F), abs(x[i])); });
  polynomial_each(t, a, fits::kLogErfc);  // log erfc(a) >= -18
  exp_each(t);
  each(t, [&](int i) { return copysign(set1(1.0F) - t[i], x[i]); });
  F32 square[kCount];
  each(square, [&](int i) { return x[i] * x[i]; });
  polynomial_each(a, square, fits::kErf);
  each(a, [&](int i) { return fma(x[i], a[i], x[i]); });
  each(x, [&](int i) { return select(less_equal(abs(x[i]), set1(1.0F)), a[i], t[i]); });
}
inline F32 erf(F32 x) {
  F32 y[1] = {x};
  erf_each(y);
  return y[0];
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// silu of numbers that become integers next, each what rounding the activation's own result gives.
#pragma once

#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

#if defined(__AVX512F__)
// silu(x) is at most 0.28 below x, so it rounds to the integer nearest to x or to the one below:
// below only under these, the least numbers whose silu rounds to 1, 2, ...; from 17.5 on nothing is
// below. Negative numbers give 0.
alignas(64) constexpr float kSiluBounds[32] = {
    -__builtin_inff(), 0x1.7a4898p-1F,    0x1.c22ab4p+0F,    0x1.561a08p+1F,    0x1.cc4a36p+1F,
    0x1.230ceep+2F,    0x1.616842p+2F,    0x1.a09e92p+2F,    0x1.e043aep+2F,    0x1.100e26p+3F,
    0x1.3005d2p+3F,    0x1.50026p+3F,     0x1.7000f4p+3F,    0x1.900062p+3F,    0x1.b00028p+3F,
    0x1.d0001p+3F,     0x1.f00008p+3F,    0x1.080004p+4F,    -__builtin_inff(), -__builtin_inff(),
    -__builtin_inff(), -__builtin_inff(), -__builtin_inff(), -__builtin_inff(), -__builtin_inff(),
    -__builtin_inff(), -__builtin_inff(), -__builtin_inff(), -__builtin_inff(), -__builtin_inff(),
    -__builtin_inff(), -__builtin_inff()};

// x as rounded_silu takes it: at most `high`, which is below 2^31, and NaN in place of -infinity,
// whose silu is one.
inline F32 bounded_for_silu(F32 x, F32 high) {
  constexpr int kKeep = 0x11111111, kNanForMinusInfinity = 0x00020000;
  const F32 y = min(high, x);
  return {_mm512_fixupimm_ps(y.v, y.v, _mm512_set1_epi32(kKeep + kNanForMinusInfinity), 0)};
}
// NaN gives the lowest integer, as conversions do.
inline I32 rounded_silu(F32 x) {
  const F32 positive = max(zero_f32(), x);
  const I32 nearest = to_i32(positive);
  const __m512i index = _mm512_min_epu32(nearest.v, _mm512_set1_epi32(31));
  const F32 bound{_mm512_permutex2var_ps(load(kSiluBounds).v, index, load(kSiluBounds + kLanes).v)};
  const __mmask16 below = less(positive, bound).m;
  return {_mm512_mask_sub_epi32(nearest.v, below, nearest.v, _mm512_set1_epi32(1))};
}
#else
inline F32 bounded_for_silu(F32 x, F32 high) { return min(high, x); }
// Results below e^-80 are zeros anyway, and the processor is slow at the subnormal numbers on their
// way.
inline I32 rounded_silu(F32 x) {
  const F32 one = set1(1.0F), least = set1(-87.0F);
  const F32 below = from_bits(bits_of(x) | set1(INT32_MIN));
  const F32 power = exp_within(max(least, below));
  const F32 t = select(less(below, least), zero_f32(), power);
  return to_i32(x * (select(less_equal(zero_f32(), x), one, t) / (t + one)));
}
#endif

}  // namespace
}  // namespace lathe::cpu

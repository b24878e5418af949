// SPDX-License-Identifier: MIT
// Vectors of 16 elements. Everything has internal linkage, so that the linker never merges code of
// two instruction sets. A Mask selects the first n lanes; a masked load returns 0 in the others and
// does not access their memory.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "targets/cpu/kernels/simd/elements.h"

namespace lathe::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kRegisters = 32;

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct Mask {
  __mmask16 m;
};
struct Choice {  // result of a comparison
  __mmask16 m;
};

// n from 0 to kLanes.
inline Mask mask_first(int64_t n) { return {static_cast<__mmask16>((1u << n) - 1)}; }

inline F32 set1(float x) { return {_mm512_set1_ps(x)}; }
inline I32 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
// x in the lower 16 bits of each lane, zeros in the upper ones.
inline I32 set1_low(uint16_t x) {
  return {_mm512_maskz_set1_epi16(0x55555555, static_cast<int16_t>(x))};
}
inline F32 zero_f32() { return {_mm512_setzero_ps()}; }
inline I32 zero_i32() { return {_mm512_setzero_si512()}; }

inline F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline I32 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline F32 load(const float* p, Mask m) { return {_mm512_maskz_loadu_ps(m.m, p)}; }
inline I32 load(const int32_t* p, Mask m) { return {_mm512_maskz_loadu_epi32(m.m, p)}; }
inline void store(float* p, F32 x) { _mm512_storeu_ps(p, x.v); }
inline void store(int32_t* p, I32 x) { _mm512_storeu_si512(p, x.v); }
inline void store(float* p, F32 x, Mask m) { _mm512_mask_storeu_ps(p, m.m, x.v); }
inline void store(int32_t* p, I32 x, Mask m) { _mm512_mask_storeu_epi32(p, m.m, x.v); }

inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // ab + c
inline F32 fnma(F32 a, F32 b, F32 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - ab
// Returns the second operand if either is NaN.
inline F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32 round_even(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline F32 floor(F32 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}

inline I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32 operator-(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32 operator*(I32 a, I32 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32 operator|(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline I32 operator^(I32 a, I32 b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline I32 min(I32 a, I32 b) { return {_mm512_min_epi32(a.v, b.v)}; }
inline I32 max(I32 a, I32 b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int kBits>
inline I32 shift_left(I32 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
inline I32 shift_right(I32 a) {  // arithmetic shift
  return {_mm512_srai_epi32(a.v, kBits)};
}

inline I32 bits_of(F32 a) { return {_mm512_castps_si512(a.v)}; }
inline F32 from_bits(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
inline F32 to_f32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32 to_i32(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }  // half to even

inline Choice less(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Choice less_equal(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline Choice equal(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline bool all(Choice c) { return c.m == 0xFFFF; }
inline Choice is_nan(F32 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
inline F32 select(Choice c, F32 yes, F32 no) { return {_mm512_mask_blend_ps(c.m, no.v, yes.v)}; }
// x in the selected lanes, `rest` in the others.
inline F32 keep(Mask m, F32 x, F32 rest) { return {_mm512_mask_blend_ps(m.m, rest.v, x.v)}; }

inline float lane0(F32 a) { return _mm512_cvtss_f32(a.v); }
// Adds the lanes in a fixed order (halves first).
inline float sum_lanes(F32 a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
inline float max_lanes(F32 a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
inline int32_t sum_lanes(I32 a) { return _mm512_reduce_add_epi32(a.v); }

// Loads that convert to f32.
inline F32 widen_bf16(__m256i x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
}
inline F32 load_f32(const float* p) { return load(p); }
inline F32 load_f32(const int32_t* p) { return to_f32(load(p)); }
inline F32 load_f32(const Bf16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F32 load_f32(const F16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline I32 load_i32(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32 load_i32(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline F32 load_f32(const int8_t* p) { return to_f32(load_i32(p)); }
inline F32 load_f32(const uint8_t* p) { return to_f32(load_i32(p)); }

inline F32 load_f32(const float* p, Mask m) { return load(p, m); }
inline F32 load_f32(const int32_t* p, Mask m) { return to_f32(load(p, m)); }
inline F32 load_f32(const Bf16* p, Mask m) { return widen_bf16(_mm256_maskz_loadu_epi16(m.m, p)); }
inline F32 load_f32(const F16* p, Mask m) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m.m, p))};
}
inline I32 load_i32(const int8_t* p, Mask m) {
  return {_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m.m, p))};
}
inline I32 load_i32(const uint8_t* p, Mask m) {
  return {_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m.m, p))};
}
inline F32 load_f32(const int8_t* p, Mask m) { return to_f32(load_i32(p, m)); }
inline F32 load_f32(const uint8_t* p, Mask m) { return to_f32(load_i32(p, m)); }

// Conversions from f32: half to even; integers saturate.
inline __m256i narrow_bf16(F32 x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __m512i nan = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(1 << 31)),
                                      _mm512_set1_epi32(0x7FC00000));
  const __m512i all = _mm512_mask_blend_epi32(is_nan(x).m, sum, nan);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16));
}
inline __m256i narrow_f16(F32 x) {
  return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline I32 saturate(F32 x, float low, float high) {
  return to_i32(min(max(x, set1(low)), set1(high)));
}
inline void store_f32(float* p, F32 x) { store(p, x); }
inline void store_f32(Bf16* p, F32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(x));
}
inline void store_f32(F16* p, F32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(x));
}
inline void store_f32(float* p, F32 x, Mask m) { store(p, x, m); }
inline void store_f32(Bf16* p, F32 x, Mask m) { _mm256_mask_storeu_epi16(p, m.m, narrow_bf16(x)); }
inline void store_f32(F16* p, F32 x, Mask m) { _mm256_mask_storeu_epi16(p, m.m, narrow_f16(x)); }
// Each value must be in the range of the type.
inline void store_i32(int8_t* p, I32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
inline void store_i32(uint8_t* p, I32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
inline void store_i32(int32_t* p, I32 x) { store(p, x); }
inline void store_i32(int8_t* p, I32 x, Mask m) {
  _mm_mask_storeu_epi8(p, m.m, _mm512_cvtepi32_epi8(x.v));
}
inline void store_i32(uint8_t* p, I32 x, Mask m) {
  _mm_mask_storeu_epi8(p, m.m, _mm512_cvtepi32_epi8(x.v));
}
inline void store_i32(int32_t* p, I32 x, Mask m) { store(p, x, m); }

// Mask of two vectors: all lanes of the first, those of `last` of the second.
inline __mmask32 two_vector_mask(Mask last) {
  return 0xFFFFU | static_cast<__mmask32>(last.m) << 16;
}
// Two contiguous vectors. bf16 requires is_special == 0. `last` masks the second vector.
inline void store_two(float* p, F32 a, F32 b) {
  store(p, a);
  store(p + kLanes, b);
}
#if defined(__AVX512BF16__)
// vcvtne2ps2bf16 flushes denormals and keeps the payload of a NaN.
inline __m512i narrow_two(F32 a, F32 b) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.v, a.v));
}
inline unsigned is_special(F32 a) {
  constexpr int kQuietNan = 0x01, kDenormal = 0x20, kNan = 0x80;
  unsigned special = _mm512_fpclass_ps_mask(a.v, kQuietNan | kDenormal | kNan);
  __asm__("" : "+r"(special));  // keeps the OR off the mask ports, which FMAs use
  return special;
}
inline unsigned is_special(F32 a, F32 b) { return is_special(a) | is_special(b); }
inline void store_one(Bf16* p, F32 a, Mask m) {
  _mm256_mask_storeu_epi16(p, m.m, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v)));
}
#else
inline __m512i narrow_two(F32 a, F32 b) {
  // Round half to even: add 0x7FFF, or 0x8000 if the last kept bit is odd, and keep the upper half.
  const auto round = [](F32 x) {
    const __m512i bits = _mm512_castps_si512(x.v);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16));
    const __m512i even = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
    const __m512i sum = _mm512_mask_add_epi32(even, odd, bits, _mm512_set1_epi32(0x8000));
    return _mm512_srli_epi32(sum, 16);
  };
  const __m512i upper = _mm512_packus_epi32(round(a), round(b));  // within lanes of 128 bits
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(order, upper);
}
inline unsigned is_special(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_UNORD_Q); }
inline unsigned is_special(F32 a) { return is_special(a, a); }
inline void store_one(Bf16* p, F32 a, Mask m) { store_f32(p, a, m); }
#endif
inline void store_two(Bf16* p, F32 a, F32 b) { _mm512_storeu_si512(p, narrow_two(a, b)); }
inline void store_two(Bf16* p, F32 a, F32 b, Mask last) {
  _mm512_mask_storeu_epi16(p, two_vector_mask(last), narrow_two(a, b));
}
// Saturating int16: packs two vectors, adds a zero point, and stores two rows as int8.
inline I32 pack_int16(I32 a, I32 b) { return {_mm512_packs_epi32(a.v, b.v)}; }
inline I32 add_to_int16(I32 a, int zero) {
  return {_mm512_adds_epi16(a.v, _mm512_set1_epi16(static_cast<int16_t>(zero)))};
}
// The masks apply to the second vector of each row.
template <bool kSigned>
inline void store_int16_as_int8(void* first, void* second, I32 p, I32 q, Mask first_last,
                                Mask second_last) {
  const __m512i bytes = kSigned ? _mm512_packs_epi16(p.v, q.v) : _mm512_packus_epi16(p.v, q.v);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i all = _mm512_permutexvar_epi32(order, bytes);
  _mm256_mask_storeu_epi8(first, two_vector_mask(first_last), _mm512_castsi512_si256(all));
  _mm256_mask_storeu_epi8(second, two_vector_mask(second_last), _mm512_extracti64x4_epi64(all, 1));
}
// Stores one vector of each of four rows as int8 from packed int16 pairs. `last` masks each row.
template <bool kSigned>
inline void store_int8_rows(char* out, int64_t stride, int rows, I32 p, I32 q, Mask last) {
  const __m512i bytes = kSigned ? _mm512_packs_epi16(p.v, q.v) : _mm512_packus_epi16(p.v, q.v);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i all = _mm512_permutexvar_epi32(order, bytes);
  _mm_mask_storeu_epi8(out, last.m, _mm512_castsi512_si128(all));
  if (rows > 1) _mm_mask_storeu_epi8(out + stride, last.m, _mm512_extracti32x4_epi32(all, 1));
  if (rows > 2) _mm_mask_storeu_epi8(out + 2 * stride, last.m, _mm512_extracti32x4_epi32(all, 2));
  if (rows > 3) _mm_mask_storeu_epi8(out + 3 * stride, last.m, _mm512_extracti32x4_epi32(all, 3));
}
// Requantises two vectors of each of two rows: round half to even, add the zero point (kZero: it is
// 0), saturate to int8. No input exceeds 2^30; NaN becomes the least value.
template <bool kSigned, bool kZero>
inline void store_int8(void* first, void* second, const F32 (&x)[4], int zero) {
  const auto int16 = [=](F32 a, F32 b) {
    const I32 both = pack_int16(to_i32(a), to_i32(b));
    return kZero ? both : add_to_int16(both, zero);
  };
  const Mask full = mask_first(kLanes);
  store_int16_as_int8<kSigned>(first, second, int16(x[0], x[1]), int16(x[2], x[3]), full, full);
}

// acc + the sum over the four bytes of each lane, exact: a is unsigned, b is signed.
inline I32 dot_u8s8(I32 acc, I32 a, I32 b) {
#if defined(__AVX512VNNI__)
  return {_mm512_dpbusd_epi32(acc.v, a.v, b.v)};
#else
  // vpmaddubsw would saturate, so even and odd bytes are multiplied as int16.
  const __m512i a0 = _mm512_and_si512(a.v, _mm512_set1_epi16(0xFF));
  const __m512i a1 = _mm512_srli_epi16(a.v, 8);
  const __m512i b0 = _mm512_srai_epi16(_mm512_slli_epi16(b.v, 8), 8);
  const __m512i b1 = _mm512_srai_epi16(b.v, 8);
  const __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(a0, b0), _mm512_madd_epi16(a1, b1));
  return {_mm512_add_epi32(acc.v, sum)};
#endif
}
// acc + the dot product of two bf16 pairs per lane. vdpbf16ps adds the odd element first and
// flushes denormals; the fallback uses that order.
inline F32 dot_bf16(F32 acc, I32 a, I32 b) {
#if defined(__AVX512BF16__)
  return {
      _mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
#else
  const __m512i high = _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000));
  const F32 a1{_mm512_castsi512_ps(_mm512_and_si512(a.v, high))};
  const F32 b1{_mm512_castsi512_ps(_mm512_and_si512(b.v, high))};
  const F32 a0 = from_bits(shift_left<16>(a)), b0 = from_bits(shift_left<16>(b));
  return fma(a0, b0, fma(a1, b1, acc));
#endif
}

}  // namespace
}  // namespace lathe::cpu

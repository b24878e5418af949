// SPDX-License-Identifier: MIT
// Vectors of 16 numbers. Everything has internal linkage: no unit may hand another its code.
// A Mask selects the first n lanes; masked loads give 0 elsewhere and touch no other memory.
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
struct Choice {  // what a comparison gives
  __mmask16 m;
};

// n from 0 to kLanes.
inline Mask mask_first(int64_t n) { return {static_cast<__mmask16>((1u << n) - 1)}; }

inline F32 set1(float x) { return {_mm512_set1_ps(x)}; }
inline I32 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
// In the lower half of each number, zeros in the upper one.
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
// Past the caches, for what nobody reads soon; p is aligned to a vector.
inline void store_streaming(float* p, F32 x) { _mm512_stream_ps(p, x.v); }

inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // ab + c
inline F32 fnma(F32 a, F32 b, F32 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - ab
// The second operand where one is NaN.
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
inline I32 shift_right(I32 a) {  // of the number, not of the bits
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
// x in the selected lanes, `rest` elsewhere.
inline F32 keep(Mask m, F32 x, F32 rest) { return {_mm512_mask_blend_ps(m.m, rest.v, x.v)}; }

inline float lane0(F32 a) { return _mm512_cvtss_f32(a.v); }
// Across lanes, in one fixed order (halves first).
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

// Numbers of other types as f32.
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

// f32 as other types: half to even; integers saturate.
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
// Integers that the type holds.
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

// Lanes of two vectors, of the second one those of `last`.
inline __mmask32 behind_whole(Mask last) { return 0xFFFFU | static_cast<__mmask32>(last.m) << 16; }
// Two vectors side by side. As bf16 only those for which is_special is 0; of the second vector, the
// lanes of `last`.
inline void store_two(float* p, F32 a, F32 b) {
  store(p, a);
  store(p + kLanes, b);
}
#if defined(__AVX512BF16__)
// The processor makes denormals zeros and keeps what a NaN carries.
inline __m512i narrow_two(F32 a, F32 b) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.v, a.v));
}
inline unsigned is_special(F32 a) {
  constexpr int kQuietNan = 0x01, kDenormal = 0x20, kNan = 0x80;
  unsigned special = _mm512_fpclass_ps_mask(a.v, kQuietNan | kDenormal | kNan);
  __asm__("" : "+r"(special));  // else masks are joined as masks, by the ports of products
  return special;
}
inline unsigned is_special(F32 a, F32 b) { return is_special(a) | is_special(b); }
inline void store_one(Bf16* p, F32 a, Mask m) {
  _mm256_mask_storeu_epi16(p, m.m, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v)));
}
#else
inline __m512i narrow_two(F32 a, F32 b) {
  // 0x7FFF more, 0x8000 where the last bit kept is odd, and the upper half of all that.
  const auto round = [](F32 x) {
    const __m512i bits = _mm512_castps_si512(x.v);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16));
    const __m512i even = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
    const __m512i sum = _mm512_mask_add_epi32(even, odd, bits, _mm512_set1_epi32(0x8000));
    return _mm512_srli_epi32(sum, 16);
  };
  const __m512i words = _mm512_packus_epi32(round(a), round(b));  // by lanes of 128 bits
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(order, words);
}
inline unsigned is_special(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_UNORD_Q); }
inline unsigned is_special(F32 a) { return is_special(a, a); }
inline void store_one(Bf16* p, F32 a, Mask m) { store_f32(p, a, m); }
#endif
inline void store_two(Bf16* p, F32 a, F32 b) { _mm512_storeu_si512(p, narrow_two(a, b)); }
inline void store_two(Bf16* p, F32 a, F32 b, Mask last) {
  _mm512_mask_storeu_epi16(p, behind_whole(last), narrow_two(a, b));
}
// Integers as words, saturated: two vectors side by side; plus a zero point; two rows of them as
// bytes.
inline I32 pack_words(I32 a, I32 b) { return {_mm512_packs_epi32(a.v, b.v)}; }
inline I32 add_to_words(I32 a, int zero) {
  return {_mm512_adds_epi16(a.v, _mm512_set1_epi16(static_cast<int16_t>(zero)))};
}
// Of the second vector of each row, the lanes of its mask.
template <bool kSigned>
inline void store_word_bytes(void* first, void* second, I32 p, I32 q, Mask first_last,
                             Mask second_last) {
  const __m512i bytes = kSigned ? _mm512_packs_epi16(p.v, q.v) : _mm512_packus_epi16(p.v, q.v);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i all = _mm512_permutexvar_epi32(order, bytes);
  _mm256_mask_storeu_epi8(first, behind_whole(first_last), _mm512_castsi512_si256(all));
  _mm256_mask_storeu_epi8(second, behind_whole(second_last), _mm512_extracti64x4_epi64(all, 1));
}
// One vector of each of four rows, as words two by two; of each, the lanes of `last`.
template <bool kSigned>
inline void store_rows_of_bytes(char* out, int64_t stride, int rows, I32 p, I32 q, Mask last) {
  const __m512i bytes = kSigned ? _mm512_packs_epi16(p.v, q.v) : _mm512_packus_epi16(p.v, q.v);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i all = _mm512_permutexvar_epi32(order, bytes);
  _mm_mask_storeu_epi8(out, last.m, _mm512_castsi512_si128(all));
  if (rows > 1) _mm_mask_storeu_epi8(out + stride, last.m, _mm512_extracti32x4_epi32(all, 1));
  if (rows > 2) _mm_mask_storeu_epi8(out + 2 * stride, last.m, _mm512_extracti32x4_epi32(all, 2));
  if (rows > 3) _mm_mask_storeu_epi8(out + 3 * stride, last.m, _mm512_extracti32x4_epi32(all, 3));
}
// Two vectors of each of two rows, rounded half to even, plus a zero point (kZero: of 0), saturated
// to bytes; none above 2^30, NaN the least of all.
template <bool kSigned, bool kZero>
inline void store_bytes(void* first, void* second, const F32 (&x)[4], int zero) {
  const auto words = [=](F32 a, F32 b) {
    const I32 both = pack_words(to_i32(a), to_i32(b));
    return kZero ? both : add_to_words(both, zero);
  };
  const Mask whole = mask_first(kLanes);
  store_word_bytes<kSigned>(first, second, words(x[0], x[1]), words(x[2], x[3]), whole, whole);
}

// acc + the sum over four bytes of each lane, exact: a unsigned, b signed.
inline I32 dot_u8s8(I32 acc, I32 a, I32 b) {
#if defined(__AVX512VNNI__)
  return {_mm512_dpbusd_epi32(acc.v, a.v, b.v)};
#else
  // vpmaddubsw would saturate: even and odd bytes as words instead.
  const __m512i a0 = _mm512_and_si512(a.v, _mm512_set1_epi16(0xFF));
  const __m512i a1 = _mm512_srli_epi16(a.v, 8);
  const __m512i b0 = _mm512_srai_epi16(_mm512_slli_epi16(b.v, 8), 8);
  const __m512i b1 = _mm512_srai_epi16(b.v, 8);
  const __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(a0, b0), _mm512_madd_epi16(a1, b1));
  return {_mm512_add_epi32(acc.v, sum)};
#endif
}
// acc + the products of two bf16 of each lane: the odd one first where the processor multiplies
// them (flushing denormals), and in the same order elsewhere.
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

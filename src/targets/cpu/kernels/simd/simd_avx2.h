// SPDX-License-Identifier: MIT
// Vectors of 8 elements. The interface is that of simd_avx512.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "targets/cpu/kernels/simd/elements.h"

namespace lathe::cpu {
namespace {

constexpr int kLanes = 8;
constexpr int kRegisters = 16;

struct F32 {
  __m256 v;
};
struct I32 {
  __m256i v;
};
struct Mask {
  __m256i m;
  int64_t n;
};
struct Choice {
  __m256 m;
};

inline Mask mask_first(int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)), lanes), n};
}

inline F32 set1(float x) { return {_mm256_set1_ps(x)}; }
inline I32 set1(int32_t x) { return {_mm256_set1_epi32(x)}; }
// x in the lower 16 bits of each lane, zeros in the upper ones.
inline I32 set1_low(uint16_t x) { return set1(static_cast<int32_t>(x)); }
inline F32 zero_f32() { return {_mm256_setzero_ps()}; }
inline I32 zero_i32() { return {_mm256_setzero_si256()}; }

inline F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline I32 load(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline F32 load(const float* p, Mask m) { return {_mm256_maskload_ps(p, m.m)}; }
inline I32 load(const int32_t* p, Mask m) { return {_mm256_maskload_epi32(p, m.m)}; }
inline void store(float* p, F32 x) { _mm256_storeu_ps(p, x.v); }
inline void store(int32_t* p, I32 x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.v); }
inline void store(float* p, F32 x, Mask m) { _mm256_maskstore_ps(p, m.m, x.v); }
inline void store(int32_t* p, I32 x, Mask m) { _mm256_maskstore_epi32(p, m.m, x.v); }

inline F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 fnma(F32 a, F32 b, F32 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
inline F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
inline F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline F32 sqrt(F32 a) { return {_mm256_sqrt_ps(a.v)}; }
inline F32 round_even(F32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline F32 floor(F32 a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}

inline I32 operator+(I32 a, I32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
inline I32 operator-(I32 a, I32 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
inline I32 operator*(I32 a, I32 b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm256_and_si256(a.v, b.v)}; }
inline I32 operator|(I32 a, I32 b) { return {_mm256_or_si256(a.v, b.v)}; }
inline I32 operator^(I32 a, I32 b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline I32 min(I32 a, I32 b) { return {_mm256_min_epi32(a.v, b.v)}; }
inline I32 max(I32 a, I32 b) { return {_mm256_max_epi32(a.v, b.v)}; }
template <int kBits>
inline I32 shift_left(I32 a) {
  return {_mm256_slli_epi32(a.v, kBits)};
}
template <int kBits>
inline I32 shift_right(I32 a) {
  return {_mm256_srai_epi32(a.v, kBits)};
}

inline I32 bits_of(F32 a) { return {_mm256_castps_si256(a.v)}; }
inline F32 from_bits(I32 a) { return {_mm256_castsi256_ps(a.v)}; }
inline F32 to_f32(I32 a) { return {_mm256_cvtepi32_ps(a.v)}; }
inline I32 to_i32(F32 a) { return {_mm256_cvtps_epi32(a.v)}; }

inline Choice less(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Choice less_equal(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
inline Choice equal(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline bool all(Choice c) { return _mm256_movemask_ps(c.m) == 0xFF; }
inline Choice is_nan(F32 a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
inline F32 select(Choice c, F32 yes, F32 no) { return {_mm256_blendv_ps(no.v, yes.v, c.m)}; }
inline F32 keep(Mask m, F32 x, F32 rest) {
  return {_mm256_blendv_ps(rest.v, x.v, _mm256_castsi256_ps(m.m))};
}

inline float lane0(F32 a) { return _mm256_cvtss_f32(a.v); }
inline float sum_lanes(F32 a) {
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
inline float max_lanes(F32 a) {
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
inline int32_t sum_lanes(I32 a) {
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xB1)));
}

// The first n elements, at most 16 bytes. AVX2 has no masked loads below 32 bits.
template <class T>
inline __m128i load_part(const T* p, Mask m) {
  T part[8] = {};
  for (int64_t i = 0; i < m.n; ++i) part[i] = p[i];
  if constexpr (sizeof(T) == 1) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(part));
  } else {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(part));
  }
}
template <class T>
inline void store_part(T* p, __m128i x, Mask m) {
  alignas(16) T part[16 / sizeof(T)];
  _mm_store_si128(reinterpret_cast<__m128i*>(part), x);
  for (int64_t i = 0; i < m.n; ++i) p[i] = part[i];
}

inline F32 widen_bf16(__m128i x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16))};
}
inline F32 load_f32(const float* p) { return load(p); }
inline F32 load_f32(const int32_t* p) { return to_f32(load(p)); }
inline F32 load_f32(const Bf16* p) {
  return widen_bf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline F32 load_f32(const F16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32 load_i32(const int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
inline I32 load_i32(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
inline F32 load_f32(const int8_t* p) { return to_f32(load_i32(p)); }
inline F32 load_f32(const uint8_t* p) { return to_f32(load_i32(p)); }

inline F32 load_f32(const float* p, Mask m) { return load(p, m); }
inline F32 load_f32(const int32_t* p, Mask m) { return to_f32(load(p, m)); }
inline F32 load_f32(const Bf16* p, Mask m) { return widen_bf16(load_part(p, m)); }
inline F32 load_f32(const F16* p, Mask m) { return {_mm256_cvtph_ps(load_part(p, m))}; }
inline I32 load_i32(const int8_t* p, Mask m) { return {_mm256_cvtepi8_epi32(load_part(p, m))}; }
inline I32 load_i32(const uint8_t* p, Mask m) { return {_mm256_cvtepu8_epi32(load_part(p, m))}; }
inline F32 load_f32(const int8_t* p, Mask m) { return to_f32(load_i32(p, m)); }
inline F32 load_f32(const uint8_t* p, Mask m) { return to_f32(load_i32(p, m)); }

inline __m128i narrow_bf16(F32 x) {
  const __m256i bits = _mm256_castps_si256(x.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i nan = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi32(1 << 31)),
                                      _mm256_set1_epi32(0x7FC00000));
  const __m256i all = _mm256_blendv_epi8(sum, nan, _mm256_castps_si256(is_nan(x).m));
  const __m256i upper = _mm256_srli_epi32(all, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}
inline __m128i narrow_f16(F32 x) {
  return _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline I32 saturate(F32 x, float low, float high) {
  return to_i32(min(max(x, set1(low)), set1(high)));
}
inline void store_f32(float* p, F32 x) { store(p, x); }
inline void store_f32(Bf16* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_bf16(x));
}
inline void store_f32(F16* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_f16(x));
}
inline void store_f32(float* p, F32 x, Mask m) { store(p, x, m); }
inline void store_f32(Bf16* p, F32 x, Mask m) { store_part(p, narrow_bf16(x), m); }
inline void store_f32(F16* p, F32 x, Mask m) { store_part(p, narrow_f16(x), m); }
// The low byte of each lane.
inline __m128i low_bytes(I32 x) {
  const __m256i pick =
      _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                       -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(x.v, pick);
  return _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
}
inline void store_i32(int8_t* p, I32 x) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), low_bytes(x));
}
inline void store_i32(uint8_t* p, I32 x) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), low_bytes(x));
}
inline void store_i32(int32_t* p, I32 x) { store(p, x); }
inline void store_i32(int8_t* p, I32 x, Mask m) { store_part(p, low_bytes(x), m); }
inline void store_i32(uint8_t* p, I32 x, Mask m) { store_part(p, low_bytes(x), m); }
inline void store_i32(int32_t* p, I32 x, Mask m) { store(p, x, m); }

template <class T>
inline void store_two(T* p, F32 a, F32 b) {
  store_f32(p, a);
  store_f32(p + kLanes, b);
}
inline unsigned is_special(F32, F32) { return 0; }  // store_two is exact for all inputs
inline I32 pack_int16(I32 a, I32 b) { return {_mm256_packs_epi32(a.v, b.v)}; }
inline I32 add_to_int16(I32 a, int zero) {
  return {_mm256_adds_epi16(a.v, _mm256_set1_epi16(static_cast<int16_t>(zero)))};
}
// Stores all lanes: AVX2 callers pass full masks only.
template <bool kSigned>
inline void store_int16_as_int8(void* first, void* second, I32 p, I32 q, Mask, Mask) {
  const __m256i bytes = kSigned ? _mm256_packs_epi16(p.v, q.v) : _mm256_packus_epi16(p.v, q.v);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i all = _mm256_permutevar8x32_epi32(bytes, order);
  _mm_storeu_si128(static_cast<__m128i*>(first), _mm256_castsi256_si128(all));
  _mm_storeu_si128(static_cast<__m128i*>(second), _mm256_extracti128_si256(all, 1));
}
template <bool kSigned, bool kZero>
inline void store_int8(void* first, void* second, const F32 (&x)[4], int zero) {
  const auto int16 = [=](F32 a, F32 b) {
    const I32 both = pack_int16(to_i32(a), to_i32(b));
    return kZero ? both : add_to_int16(both, zero);
  };
  const Mask full = mask_first(kLanes);
  store_int16_as_int8<kSigned>(first, second, int16(x[0], x[1]), int16(x[2], x[3]), full, full);
}

inline I32 dot_u8s8(I32 acc, I32 a, I32 b) {
#if defined(__AVXVNNI__)
  return {_mm256_dpbusd_avx_epi32(acc.v, a.v, b.v)};
#else
  const __m256i a0 = _mm256_and_si256(a.v, _mm256_set1_epi16(0xFF));
  const __m256i a1 = _mm256_srli_epi16(a.v, 8);
  const __m256i b0 = _mm256_srai_epi16(_mm256_slli_epi16(b.v, 8), 8);
  const __m256i b1 = _mm256_srai_epi16(b.v, 8);
  const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(a0, b0), _mm256_madd_epi16(a1, b1));
  return {_mm256_add_epi32(acc.v, sum)};
#endif
}
inline F32 dot_bf16(F32 acc, I32 a, I32 b) {
  const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(0xFFFF0000));
  const F32 a1{_mm256_castsi256_ps(_mm256_and_si256(a.v, high))};
  const F32 b1{_mm256_castsi256_ps(_mm256_and_si256(b.v, high))};
  const F32 a0 = from_bits(shift_left<16>(a)), b0 = from_bits(shift_left<16>(b));
  return fma(a0, b0, fma(a1, b1, acc));
}

}  // namespace
}  // namespace lathe::cpu

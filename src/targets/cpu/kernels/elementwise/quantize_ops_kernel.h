// SPDX-License-Identifier: MIT
// Body of quantize_ops_*.cpp.
#pragma once

#include "targets/cpu/kernels/elementwise/quantize_ops_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

// Calls f(i, scale, zero) for the whole vectors of an array, then f(i, scale, zero, mask).
template <class F>
inline __attribute__((always_inline)) void for_scaled(const QuantizeScale& by, int64_t count,
                                                      F&& f) {
  const int64_t whole = count & -kLanes;
  const Mask rest = mask_first(count - whole);
  if (by.each) {
    for (int64_t i = 0; i < whole; i += kLanes) f(i, load(by.scale + i), load(by.zero + i));
    if (whole < count) f(whole, load(by.scale + whole, rest), load(by.zero + whole, rest), rest);
    return;
  }
  const F32 scale = set1(*by.scale), zero = set1(*by.zero);
  for (int64_t i = 0; i < whole; i += kLanes) f(i, scale, zero);
  if (whole < count) f(whole, scale, zero, rest);
}

template <class T>
void quantize_array(const float* x, const QuantizeScale& by, T* y, int64_t count) {
  constexpr bool kSigned = static_cast<T>(-1) < 0;
  const F32 low = set1(kSigned ? -128.0F : 0.0F), high = set1(kSigned ? 127.0F : 255.0F);
  for_scaled(by, count,
             [&](int64_t i, F32 scale, F32 zero, auto... mask) __attribute__((always_inline)) {
               const F32 v = round_even(load(x + i, mask...) / scale) + zero;
               const F32 bounded = min(max(v, low), high);
               store_i32(y + i, to_i32(select(is_nan(v), zero_f32(), bounded)), mask...);
             });
}

template <class T>
void dequantize_array(const T* x, const QuantizeScale& by, float* y, int64_t count) {
  for_scaled(by, count,
             [&](int64_t i, F32 scale, F32 zero, auto... mask) __attribute__((always_inline)) {
               store(y + i, (load_f32(x + i, mask...) - zero) * scale, mask...);
             });
}

// 16 shuffles of 16 bytes, each kept where the high half of the index is its own.
#ifdef __AVX512BW__
constexpr int64_t kTableLanes = 64;

inline void look_up_lanes(const __m512i* rows, const uint8_t* x, uint8_t* y) {
  const __m512i index = _mm512_loadu_si512(x);
  const __m512i high = _mm512_andnot_si512(_mm512_set1_epi8(0x0F), index);
  const __m512i low = _mm512_and_si512(index, _mm512_set1_epi8(0x0F));
  __m512i value = _mm512_setzero_si512();
  for (int row = 0; row < 16; ++row) {
    const __mmask64 own =
        _mm512_cmpeq_epi8_mask(high, _mm512_set1_epi8(static_cast<char>(row << 4)));
    value = _mm512_mask_shuffle_epi8(value, own, rows[row], low);
  }
  _mm512_storeu_si512(y, value);
}

inline __m512i table_row(const uint8_t* table) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}
using TableRow = __m512i;
#else
constexpr int64_t kTableLanes = 32;

inline void look_up_lanes(const __m256i* rows, const uint8_t* x, uint8_t* y) {
  const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  const __m256i high = _mm256_andnot_si256(_mm256_set1_epi8(0x0F), index);
  const __m256i low = _mm256_and_si256(index, _mm256_set1_epi8(0x0F));
  __m256i value = _mm256_setzero_si256();
  for (int row = 0; row < 16; ++row) {
    const __m256i own = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(static_cast<char>(row << 4)));
    value = _mm256_or_si256(value, _mm256_and_si256(own, _mm256_shuffle_epi8(rows[row], low)));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), value);
}

inline __m256i table_row(const uint8_t* table) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}
using TableRow = __m256i;
#endif

void look_up_array(const uint8_t* x, const uint8_t* table, uint8_t* y, int64_t count) {
  TableRow rows[16];
  for (int row = 0; row < 16; ++row) rows[row] = table_row(table + 16 * row);
  const int64_t whole = count & -kTableLanes;
  for (int64_t i = 0; i < whole; i += kTableLanes) look_up_lanes(rows, x + i, y + i);
  for (int64_t i = whole; i < count; ++i) y[i] = table[x[i]];
}

constexpr QuantizeOps kQuantizeOps{quantize_array<uint8_t>, quantize_array<int8_t>,
                                   dequantize_array<uint8_t>, dequantize_array<int8_t>,
                                   look_up_array};

}  // namespace
}  // namespace lathe::cpu

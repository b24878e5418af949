// SPDX-License-Identifier: MIT
#include <immintrin.h>

#include "targets/cpu/kernels/common/transpose_table.h"

namespace lathe::cpu {
namespace {

// 8x8 block: three interleaving steps of doubling width.
inline void block(const uint32_t* from, int64_t from_pitch, uint32_t* to, int64_t to_pitch) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i)
    r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * from_pitch));
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    s[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    s[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) _mm256_storeu_ps(reinterpret_cast<float*>(to + i * to_pitch), s[i]);
}

inline void block(const uint16_t* from, int64_t from_pitch, uint16_t* to, int64_t to_pitch) {
  __m128i r[8], s[8];
  for (int i = 0; i < 8; ++i)
    r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_pitch));
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
    s[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = _mm_unpacklo_epi16(s[i], s[i + 4]);
    r[2 * i + 1] = _mm_unpackhi_epi16(s[i], s[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
    s[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
  }
  for (int i = 0; i < 8; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * to_pitch), s[i]);
}

inline void block(const uint8_t* from, int64_t from_pitch, uint8_t* to, int64_t to_pitch) {
  __m128i r[8], s[4];
  for (int i = 0; i < 8; ++i)
    r[i] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * from_pitch));
  for (int i = 0; i < 4; ++i) s[i] = _mm_unpacklo_epi8(r[i], r[i + 4]);  // rows i, i + 4
  const __m128i even = _mm_unpacklo_epi8(s[0], s[2]), even_high = _mm_unpackhi_epi8(s[0], s[2]);
  const __m128i odd = _mm_unpacklo_epi8(s[1], s[3]), odd_high = _mm_unpackhi_epi8(s[1], s[3]);
  const __m128i columns[4] = {_mm_unpacklo_epi8(even, odd), _mm_unpackhi_epi8(even, odd),
                              _mm_unpacklo_epi8(even_high, odd_high),
                              _mm_unpackhi_epi8(even_high, odd_high)};
  for (int i = 0; i < 4; ++i) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * i * to_pitch), columns[i]);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + (2 * i + 1) * to_pitch),
                     _mm_unpackhi_epi64(columns[i], columns[i]));
  }
}

template <class T>
void transpose_elements(const void* from_memory, int64_t from_pitch, void* to_memory,
                        int64_t to_pitch, int64_t rows, int64_t columns) {
  const T* from = static_cast<const T*>(from_memory);
  T* to = static_cast<T*>(to_memory);
  const int64_t row_blocks = rows & ~int64_t{7}, column_blocks = columns & ~int64_t{7};
  for (int64_t c = 0; c < column_blocks; c += 8) {
    for (int64_t r = 0; r < row_blocks; r += 8)
      block(from + r * from_pitch + c, from_pitch, to + c * to_pitch + r, to_pitch);
    for (int64_t j = c; j < c + 8; ++j)
      for (int64_t r = row_blocks; r < rows; ++r) to[j * to_pitch + r] = from[r * from_pitch + j];
  }
  for (int64_t c = column_blocks; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) to[c * to_pitch + r] = from[r * from_pitch + c];
}

}  // namespace

const TransposeTable kTransposeAvx2{transpose_elements<uint8_t>, transpose_elements<uint16_t>,
                                    transpose_elements<uint32_t>};

}  // namespace lathe::cpu

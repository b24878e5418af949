// SPDX-License-Identifier: MIT
// Transposes of 32-bit elements. Include only in units compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

// Lane j of vector i becomes lane i of vector j.
inline void transpose_lanes(F32 (&x)[kLanes]) {
#if defined(__AVX512F__)
  __m512 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(x[i].v, x[i + 1].v);
    a[i + 1] = _mm512_unpackhi_ps(x[i].v, x[i + 1].v);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xEE);
    b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[i] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
    a[i + 4] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xDD);
    a[i + 8] = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
    a[i + 12] = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i].v = _mm512_shuffle_f32x4(a[i], a[i + 8], 0x88);
    x[i + 8].v = _mm512_shuffle_f32x4(a[i], a[i + 8], 0xDD);
    x[i + 4].v = _mm512_shuffle_f32x4(a[i + 4], a[i + 12], 0x88);
    x[i + 12].v = _mm512_shuffle_f32x4(a[i + 4], a[i + 12], 0xDD);
  }
#else
  __m256 a[8], b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(x[i].v, x[i + 1].v);
    a[i + 1] = _mm256_unpackhi_ps(x[i].v, x[i + 1].v);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xEE);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i].v = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    x[i + 4].v = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
#endif
}

// to[unit * to_pitch + row] = from[row * from_pitch + unit]. Writes full vectors; rows beyond the
// last one are zero.
inline void transpose_units(const float* from, int64_t from_pitch, int64_t rows, int64_t units,
                            float* to, int64_t to_pitch) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    const int64_t most = rows - row;
    for (int64_t unit = 0; unit < units; unit += kLanes) {
      const int64_t count = units - unit < kLanes ? units - unit : kLanes;
      const Mask mask = mask_first(count);
      F32 x[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        x[i] = i < most ? load(from + (row + i) * from_pitch + unit, mask) : zero_f32();
      }
      transpose_lanes(x);
      for (int64_t i = 0; i < count; ++i) store(to + (unit + i) * to_pitch + row, x[i]);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Body of winograd_*.cpp. Transforms one axis after the other: two short passes cost less
// than a matrix multiplication.
#pragma once

#include "targets/cpu/kernels/conv/winograd_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

// Interpolation points 0, 1, -1 and infinity.
inline void input_sums(const F32 (&d)[4], F32 (&t)[4]) {
  t[0] = d[0] - d[2];
  t[1] = d[1] + d[2];
  t[2] = d[2] - d[1];
  t[3] = d[1] - d[3];
}
inline void output_sums(const F32 (&m)[4], F32 (&y)[2]) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] - m[3];
}

// Interpolation points 0, 1, -1, 2, -2 and infinity.
inline void input_sums(const F32 (&d)[6], F32 (&t)[6]) {
  const F32 two = set1(2.0F), four = set1(4.0F), five = set1(5.0F);
  const F32 a = fnma(four, d[2], d[4]), b = fnma(four, d[1], d[3]);
  const F32 c = d[4] - d[2], e = d[3] - d[1];
  t[0] = fma(four, d[0], fnma(five, d[2], d[4]));
  t[1] = a + b;
  t[2] = a - b;
  t[3] = fma(two, e, c);
  t[4] = fnma(two, e, c);
  t[5] = fma(four, d[1], fnma(five, d[3], d[5]));
}
inline void output_sums(const F32 (&m)[6], F32 (&y)[4]) {
  const F32 two = set1(2.0F), four = set1(4.0F), eight = set1(8.0F);
  const F32 s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
  y[0] = m[0] + s1 + s2;
  y[1] = fma(two, d2, d1);
  y[2] = fma(four, s2, s1);
  y[3] = fma(eight, d2, d1) + m[5];
}

template <int kTile, bool kInside>
inline void input_vector(const WinogradInput& in, int64_t c, Mask mask, bool whole) {
  constexpr int kSize = kTile + 2;
  F32 half[kSize][kSize];  // [row frequency][column]
#pragma GCC unroll 6
  for (int j = 0; j < kSize; ++j) {
    F32 column[kSize], sums[kSize];
    const bool depthwise_work = kInside || (j >= in.column_begin && j < in.column_end);
#pragma GCC unroll 6
    for (int i = 0; i < kSize; ++i) {
      const float* x = in.x + i * in.row_pitch + j * in.column_pitch + c;
      const bool inside = kInside || (depthwise_work && i >= in.row_begin && i < in.row_end);
      column[i] = !inside ? zero_f32() : whole ? load(x) : load(x, mask);
    }
    input_sums(column, sums);
#pragma GCC unroll 6
    for (int i = 0; i < kSize; ++i) half[i][j] = sums[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kSize; ++i) {
    F32 sums[kSize];
    input_sums(half[i], sums);
#pragma GCC unroll 6
    for (int j = 0; j < kSize; ++j) {
      float* to = in.to + (i * kSize + j) * in.to_pitch + c;
      whole ? store(to, sums[j]) : store(to, sums[j], mask);
    }
  }
}

template <int kTile>
void winograd_input(const WinogradInput& in) {
  constexpr int kSize = kTile + 2;
  const bool inside =
      in.row_begin == 0 && in.row_end == kSize && in.column_begin == 0 && in.column_end == kSize;
  for (int64_t c = 0; c < in.channels; c += kLanes) {
    const int64_t left = in.channels - c;
    const bool whole = left >= kLanes;
    const Mask mask = mask_first(whole ? kLanes : left);
    inside ? input_vector<kTile, true>(in, c, mask, whole)
           : input_vector<kTile, false>(in, c, mask, whole);
  }
}

template <int kTile>
void winograd_output(const WinogradOutput& out) {
  constexpr int kSize = kTile + 2;
  for (int64_t c = 0; c < out.channels; c += kLanes) {
    const int64_t left = out.channels - c;
    const bool whole = left >= kLanes;
    const Mask mask = mask_first(whole ? kLanes : left);
    F32 half[kTile][kSize];
#pragma GCC unroll 6
    for (int j = 0; j < kSize; ++j) {
      F32 column[kSize], sums[kTile];
#pragma GCC unroll 6
      for (int i = 0; i < kSize; ++i) {
        const float* from = out.from + (i * kSize + j) * out.from_pitch + c;
        column[i] = whole ? load(from) : load(from, mask);
      }
      output_sums(column, sums);
#pragma GCC unroll 4
      for (int i = 0; i < kTile; ++i) half[i][j] = sums[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < kTile; ++i) {
      if (i >= out.rows) break;
      F32 sums[kTile];
      output_sums(half[i], sums);
#pragma GCC unroll 4
      for (int j = 0; j < kTile; ++j) {
        if (j >= out.columns) break;
        float* y = out.y + i * out.row_pitch + j * out.column_pitch + c;
        whole ? store(y, sums[j]) : store(y, sums[j], mask);
      }
    }
  }
}

constexpr WinogradTable kWinogradTable{winograd_input<2>, winograd_input<4>, winograd_output<2>,
                                       winograd_output<4>};

}  // namespace
}  // namespace lathe::cpu

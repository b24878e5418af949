// SPDX-License-Identifier: MIT
// Body of row_ops_*.cpp.
#pragma once

#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/elementwise/row_ops_table.h"

namespace lathe::cpu {
namespace {

constexpr int kRowStep = 4;  // vectors per step, one partial sum each

// Calls f(i, mask, partial sum) for the vectors of a row in order.
template <class F>
inline void for_vectors(int64_t count, F&& f) {
  int64_t i = 0;
  const Mask all = mask_first(kLanes);
  for (; i + kRowStep * kLanes <= count; i += kRowStep * kLanes) {
#pragma GCC unroll 4
    for (int s = 0; s < kRowStep; ++s) f(i + s * kLanes, all, s);
  }
  for (; i + kLanes <= count; i += kLanes) f(i, all, 0);
  if (i < count) f(i, mask_first(count - i), 0);
}

// Sum over the row's vectors: f adds a vector to a partial sum.
template <class F>
inline float sum_row(int64_t count, F&& f) {
  F32 sum[kRowStep];
  for (int s = 0; s < kRowStep; ++s) sum[s] = zero_f32();
  for_vectors(count, [&](int64_t i, Mask mask, int s) { sum[s] = f(i, mask, sum[s]); });
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

RowMoments normalize_row(const NormalizedRow& row) {
  const float* x = row.x;
  if (row.skip != nullptr) {
    float* to = row.sum != nullptr ? row.sum : row.y;
    for_vectors(row.count, [&](int64_t i, Mask mask, int) {
      F32 s = load(row.x + i, mask) + load(row.skip + i, mask);
      if (row.bias != nullptr) s = s + load(row.bias + i, mask);
      store(to + i, s, mask);
    });
    x = to;
  }
  const auto count = static_cast<float>(row.count);
  RowMoments moments{};
  if (row.centred) {
    moments.mean =
        sum_row(row.count, [&](int64_t i, Mask mask, F32 sum) { return sum + load(x + i, mask); }) /
        count;
  }
  const F32 mean = set1(moments.mean);
  const float squares = sum_row(row.count, [&](int64_t i, Mask mask, F32 sum) {
    const F32 d = keep(mask, load(x + i, mask) - mean, zero_f32());
    return fma(d, d, sum);
  });
  moments.inverse = 1 / __builtin_sqrtf(squares / count + row.epsilon);
  const F32 inverse = set1(moments.inverse);
  for_vectors(row.count, [&](int64_t i, Mask mask, int) {
    F32 y = (load(x + i, mask) - mean) * inverse;
    if (row.gamma != nullptr) y = y * load(row.gamma + i, mask);
    if (row.beta != nullptr) y = y + load(row.beta + i, mask);
    store(row.y + i, y, mask);
  });
  return moments;
}

template <class F>
inline void binary_row(const float* a, const float* b, float* y, int64_t count, F&& f) {
  for_vectors(count, [&](int64_t i, Mask mask, int) {
    store(y + i, f(load(a + i, mask), load(b + i, mask)), mask);
  });
}

void add_row(const float* a, const float* b, float* y, int64_t count) {
  binary_row(a, b, y, count, [](F32 u, F32 v) { return u + v; });
}
void sub_row(const float* a, const float* b, float* y, int64_t count) {
  binary_row(a, b, y, count, [](F32 u, F32 v) { return u - v; });
}
void mul_row(const float* a, const float* b, float* y, int64_t count) {
  binary_row(a, b, y, count, [](F32 u, F32 v) { return u * v; });
}
void combine_rows(const float* const* rows, const float* weights, int64_t count_rows, float* y,
                  int64_t count) {
  if (count_rows == 1) {
    const F32 a = set1(weights[0]);
    return for_vectors(
        count, [&](int64_t i, Mask mask, int) { store(y + i, load(rows[0] + i, mask) * a, mask); });
  }
  if (count_rows == 2) {
    const F32 a = set1(weights[0]), b = set1(weights[1]);
    return for_vectors(count, [&](int64_t i, Mask mask, int) {
      store(y + i, fma(load(rows[1] + i, mask), b, load(rows[0] + i, mask) * a), mask);
    });
  }
  for_vectors(count, [&](int64_t i, Mask mask, int) {
    F32 sum = load(rows[0] + i, mask) * set1(weights[0]);
    for (int64_t row = 1; row < count_rows; ++row) {
      sum = fma(load(rows[row] + i, mask), set1(weights[row]), sum);
    }
    store(y + i, sum, mask);
  });
}
void softmax_row(const float* x, float* y, int64_t count) {
  const F32 lowest = set1(-__builtin_inff());
  F32 most[kRowStep];
  for (int s = 0; s < kRowStep; ++s) most[s] = lowest;
  for_vectors(count, [&](int64_t i, Mask mask, int s) {
    most[s] = max(most[s], keep(mask, load(x + i, mask), lowest));
  });
  const F32 largest = set1(max_lanes(max(max(most[0], most[1]), max(most[2], most[3]))));
  const F32 sum = set1(sum_row(count, [&](int64_t i, Mask mask, F32 all) {
    const F32 power = exp(load(x + i, mask) - largest);
    store(y + i, power, mask);
    return all + keep(mask, power, zero_f32());
  }));
  for_vectors(count,
              [&](int64_t i, Mask mask, int) { store(y + i, load(y + i, mask) / sum, mask); });
}

// Softmax of the columns that kVectors vectors hold.
template <int kVectors>
inline void softmax_vectors(const float* x, int64_t x_stride, float* y, int64_t y_stride,
                            int64_t rows, Mask mask) {
  F32 most[kVectors], sum[kVectors];
  for (int v = 0; v < kVectors; ++v) most[v] = load(x + v * kLanes, mask);
  for (int64_t row = 1; row < rows; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      most[v] = max(most[v], load(x + row * x_stride + v * kLanes, mask));
    }
  }
  for (int v = 0; v < kVectors; ++v) sum[v] = zero_f32();
  for (int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      const F32 power = exp(load(x + row * x_stride + v * kLanes, mask) - most[v]);
      store(y + row * y_stride + v * kLanes, power, mask);
      sum[v] = sum[v] + power;
    }
  }
  for (int v = 0; v < kVectors; ++v) sum[v] = set1(1.0F) / sum[v];
  for (int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = y + row * y_stride + v * kLanes;
      store(to, load(to, mask) * sum[v], mask);
    }
  }
}

void softmax_columns(const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows,
                     int64_t count) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    softmax_vectors<4>(x + i, x_stride, y + i, y_stride, rows, mask_first(kLanes));
  }
  for (; i < count; i += kLanes) {
    const Mask mask = mask_first(count - i < kLanes ? count - i : kLanes);
    softmax_vectors<1>(x + i, x_stride, y + i, y_stride, rows, mask);
  }
}

void swiglu_row(float alpha, const float* a, const float* b, float* y, int64_t count) {
  const F32 by = set1(alpha);
  binary_row(a, b, y, count, [=](F32 u, F32 v) { return silu(u, by) * v; });
}

void rotate_row(const float* x, const float* cos, const float* sin, int64_t half, int64_t size,
                float* y) {
  for_vectors(half, [&](int64_t i, Mask mask, int) {
    const F32 u = load(x + i, mask), v = load(x + half + i, mask);
    const F32 c = load(cos + i, mask), s = load(sin + i, mask);
    store(y + i, u * c - v * s, mask);
    store(y + half + i, u * s + v * c, mask);
  });
  for (int64_t i = 2 * half; i < size; ++i) y[i] = x[i];
}

// Elements 0, 0, 1, 1, …
inline F32 duplicate(F32 x) {
#if defined(__AVX512F__)
  return {
      _mm512_permutexvar_ps(_mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0), x.v)};
#else
  return {_mm256_permutevar8x32_ps(x.v, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0))};
#endif
}
// Elements 1, 0, 3, 2, …
inline F32 swap_neighbours(F32 x) {
  constexpr int kSwap = 0xb1;
#if defined(__AVX512F__)
  return {_mm512_permute_ps(x.v, kSwap)};
#else
  return {_mm256_permute_ps(x.v, kSwap)};
#endif
}
// x - y of even elements, x + y of odd ones.
inline F32 subtract_add(F32 x, F32 y) {
#if defined(__AVX512F__)
  return {_mm512_mask_sub_ps(_mm512_add_ps(x.v, y.v), 0x5555, x.v, y.v)};
#else
  return {_mm256_addsub_ps(x.v, y.v)};
#endif
}

void rotate_pairs(const float* x, const float* cos, const float* sin, int64_t half, int64_t size,
                  float* y) {
  for (int64_t i = 0; i < half; i += kLanes / 2) {
    const int64_t count = half - i < kLanes / 2 ? half - i : kLanes / 2;
    const Mask pairs = mask_first(count), elements = mask_first(2 * count);
    const F32 c = duplicate(load(cos + i, pairs)), s = duplicate(load(sin + i, pairs));
    const F32 own = load(x + 2 * i, elements);
    store(y + 2 * i, subtract_add(own * c, swap_neighbours(own) * s), elements);
  }
  for (int64_t i = 2 * half; i < size; ++i) y[i] = x[i];
}

constexpr RowOps kRowOps{normalize_row, add_row,         sub_row,    mul_row,    combine_rows,
                         softmax_row,   softmax_columns, swiglu_row, rotate_row, rotate_pairs};

}  // namespace
}  // namespace lathe::cpu

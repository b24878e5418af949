// SPDX-License-Identifier: MIT
// Operations on rows of f32 between GEMMs: normalisation, softmax, RoPE, elementwise arithmetic,
// weighted rows.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// s = x + skip + bias; y = (s - mean) · inverse · gamma + beta. Null skip, bias and beta are 0,
// null gamma is 1.
struct NormalizedRow {
  const float* x = nullptr;
  const float* skip = nullptr;
  const float* bias = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* y = nullptr;
  float* sum = nullptr;  // receives s; may be null
  int64_t count = 0;
  float epsilon = 0;
  bool centred = false;  // false: RMS normalisation, mean = 0
};

struct RowMoments {
  float mean;
  float inverse;  // 1 / sqrt(mean of squares + epsilon)
};

struct RowOps {
  // Adds in an order that depends on the row's count only.
  RowMoments (*normalize)(const NormalizedRow& row);
  // Elementwise; y may be a or b. Bit-identical to the ops with these names.
  void (*add)(const float* a, const float* b, float* y, int64_t count);
  void (*sub)(const float* a, const float* b, float* y, int64_t count);
  void (*mul)(const float* a, const float* b, float* y, int64_t count);
  // y = sum of weights[i] · rows[i], added in this order; count_rows >= 1.
  void (*combine)(const float* const* rows, const float* weights, int64_t count_rows, float* y,
                  int64_t count);
  // y = exp(x - max) over its sum, whose order depends on the count only; y may be x.
  void (*softmax)(const float* x, float* y, int64_t count);
  // Softmax along the other axis: of `count` columns of `rows` elements each; y may be x.
  void (*softmax_columns)(const float* x, int64_t x_stride, float* y, int64_t y_stride,
                          int64_t rows, int64_t count);
  void (*swiglu)(float alpha, const float* a, const float* b, float* y, int64_t count);
  // RoPE: rotates pairs (i, half + i) by angle i and copies elements from 2 · half to size. x and y
  // must not overlap.
  void (*rotate)(const float* x, const float* cos, const float* sin, int64_t half, int64_t size,
                 float* y);
  // Rotates pairs (2i, 2i + 1) otherwise as `rotate`.
  void (*rotate_pairs)(const float* x, const float* cos, const float* sin, int64_t half,
                       int64_t size, float* y);
};
const RowOps& row_ops(Isa isa);

}  // namespace lathe::cpu

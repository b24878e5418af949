// SPDX-License-Identifier: MIT
// What is done to rows of f32 between products: normalisation, rotation, sums and products.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// s = x + skip + bias; y = (s - mean) · inverse · gamma + beta. Null: without that.
struct NormalizedRow {
  const float* x = nullptr;
  const float* skip = nullptr;
  const float* bias = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* y = nullptr;
  float* sum = nullptr;  // takes s; may be null
  int64_t count = 0;
  float epsilon = 0;
  bool centred = false;  // false: the mean is taken to be 0
};

struct RowMoments {
  float mean;
  float inverse;  // 1 / sqrt(mean of squares + epsilon)
};

struct RowOps {
  // Sums in one order fixed by the row's count.
  RowMoments (*normalize)(const NormalizedRow& row);
  // Element by element; y may be a or b. The bits of the ops of these names.
  void (*add)(const float* a, const float* b, float* y, int64_t count);
  void (*sub)(const float* a, const float* b, float* y, int64_t count);
  void (*mul)(const float* a, const float* b, float* y, int64_t count);
  void (*swiglu)(float alpha, const float* a, const float* b, float* y, int64_t count);
  // Pairs (i, half + i) turned by angle i; elements from 2 · half to size stay. x and y are apart.
  void (*rotate)(const float* x, const float* cos, const float* sin, int64_t half, int64_t size,
                 float* y);
};
const RowOps& row_ops(Isa isa);

}  // namespace lathe::cpu

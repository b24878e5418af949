// SPDX-License-Identifier: MIT
// Pooling kernels exported by the per-ISA sources.
#pragma once

#include <cstdint>

#include "tensor/element_type.h"

namespace lathe::cpu {

// Final step: divides means, rounds integers to their type.
struct PoolingFinish {
  bool average = false;
  bool integer = false;
  float ratio = 1;
  float x_zero = 0;
  float y_zero = 0;
};

// One row of outputs along the last axis; `taps` rows along the outer axes.
struct PoolingRow {
  const void* x = nullptr;      // first tap row, first element
  int64_t taps[2] = {1, 1};     // along the outer axes
  int64_t strides[2] = {0, 0};  // elements
  int64_t input = 0;            // elements of a row
  int64_t outputs = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  float* buffer = nullptr;  // scratch: one row with its padding
  int64_t buffer_size = 0;
  const float* valid = nullptr;    // per output: taps inside the input along the last axis
  const float* counted = nullptr;  // per output: divisor of a mean along the last axis
  float outer_valid = 1;
  float outer_counted = 1;
  void* y = nullptr;
  PoolingFinish finish;
};

// One output position, all channels.
struct PoolingPoint {
  const void* x = nullptr;  // first tap
  int64_t taps[3] = {1, 1, 1};
  int64_t strides[3] = {0, 0, 0};
  int64_t channels = 0;
  float valid = 1;
  float counted = 1;
  void* y = nullptr;
  PoolingFinish finish;
};

struct PoolingKernels {
  void (*row)(ElementType type, const PoolingRow& row);
  void (*point)(ElementType type, const PoolingPoint& point);
  // One output of `count` contiguous elements.
  void (*whole)(ElementType type, const void* x, int64_t count, const PoolingFinish& finish,
                void* y);
};

const PoolingKernels& pooling_avx2();
const PoolingKernels& pooling_avx512();

}  // namespace lathe::cpu

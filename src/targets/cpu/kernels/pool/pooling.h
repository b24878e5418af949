// SPDX-License-Identifier: MIT
// Max and mean pooling over up to three spatial axes, channels-first or channels-last. Computes in
// f32. A maximum is exact, returns the first of equal values, and propagates NaN.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/element_type.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

struct PoolingKernels;

struct PoolingAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
};

// Global pooling has a kernel of the input's size and one output.
struct PoolingProblem {
  bool average = false;
  bool channels_last = false;
  bool count_include_pad = false;
  bool needs_indices = false;
  ElementType element = ElementType::f32;  // f32, bf16, f16, i8, u8
  int64_t channels = 1;
  std::array<PoolingAxis, 3> axes;  // innermost last; unused axes stay 1
  // Integer means: y = round((Σ x - x_zero) · ratio / count) + y_zero, half to even. ratio: scale
  // of x over scale of y.
  float ratio = 1;
  int32_t x_zero = 0;
  int32_t y_zero = 0;
};

// [images, channels, spatial…] or [images, spatial…, channels]. Spatial axes are dense; strides are
// in elements.
struct PoolingTensor {
  void* data = nullptr;
  int64_t image = 0;
  int64_t channel = 0;  // between planes; channels-last: between positions
};

class Pooling {
 public:
  // Reason why the kernels do not support the problem; empty if they do.
  static std::string refuse(const PoolingProblem& problem);
  // Requires an empty refuse(problem).
  Pooling(const PoolingProblem& problem, Isa isa);

  const PoolingProblem& problem() const { return problem_; }
  void run(const PoolingTensor& x, const PoolingTensor& y, int64_t images, ThreadPool* pool) const;

 private:
  PoolingProblem problem_;
  const PoolingKernels* kernels_;
};

}  // namespace lathe::cpu

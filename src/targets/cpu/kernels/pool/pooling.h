// SPDX-License-Identifier: MIT
// Maximum and mean over windows of up to three spatial axes, channels first or last. Computed in
// f32; a maximum is exact, the first of equals, and a NaN wins.
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

// Global pooling: a kernel as large as the input, one output.
struct PoolingProblem {
  bool average = false;
  bool channels_last = false;
  bool count_include_pad = false;
  bool wants_indices = false;
  ElementType element = ElementType::f32;  // f32, bf16, f16, i8, u8
  int64_t channels = 1;
  std::array<PoolingAxis, 3> axes;  // the last is the innermost; unused ones are left at 1
  // Means of integers: y = round((Σ x - x_zero) · ratio / count) + y_zero, half to even; ratio is
  // x's scale over y's.
  float ratio = 1;
  int32_t x_zero = 0;
  int32_t y_zero = 0;
};

// [images, channels, spatial…] or [images, spatial…, channels]: the spatial axes are dense among
// themselves, strides count elements.
struct PoolingTensor {
  void* data = nullptr;
  int64_t image = 0;
  int64_t channel = 0;  // between planes; channels last: between positions
};

class Pooling {
 public:
  // Why these kernels do not take the problem; empty where they do.
  static std::string refuse(const PoolingProblem& problem);
  // The problem must not be refused.
  Pooling(const PoolingProblem& problem, Isa isa);

  const PoolingProblem& problem() const { return problem_; }
  void run(const PoolingTensor& x, const PoolingTensor& y, int64_t images, ThreadPool* pool) const;

 private:
  PoolingProblem problem_;
  const PoolingKernels* kernels_;
};

}  // namespace lathe::cpu

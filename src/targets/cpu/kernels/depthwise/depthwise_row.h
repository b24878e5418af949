// SPDX-License-Identifier: MIT
// The call between depthwise convolution's driver and its kernels: one row of outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "targets/cpu/kernels/gemm/epilogue_simple.h"

namespace lathe::cpu {

// One row of input under one row of the kernel. Rows outside the input are left out.
struct DepthwiseTapRow {
  const void* x = nullptr;         // channel 0 of column 0
  const float* weights = nullptr;  // [kernel][w_pitch], or pairs of words
};

// Memory that will be read or written soon, fetched a share with each block of outputs.
struct DepthwisePrefetch {
  const std::byte* at = nullptr;
  int64_t bytes = 0;
};

// Outputs `begin` to `end` of a row, all channels: y[o, c] = sum over rows and taps k of
// (x[o * stride + k * dilation - pad, c] - x_zero) * weights[k, c], rows and taps in ascending
// order; taps outside add nothing.
struct DepthwiseRow {
  const DepthwiseTapRow* rows = nullptr;
  int64_t row_count = 0;
  int64_t kernel = 1, stride = 1, dilation = 1, pad = 0;
  int64_t input = 0;           // columns
  int64_t begin = 0, end = 0;  // outputs
  int64_t channels = 0;
  int64_t x_pitch = 0, w_pitch = 0;  // elements from column to column, tap to tap
  int32_t x_zero = 0;                // of integers: sums are exact below 2^24
  // Sums [end - begin][sums_pitch], f32 or i32 of integers; or, with an epilogue, outputs, whose
  // first one is at (row, column) of its operands.
  void* out = nullptr;
  int64_t sums_pitch = 0;
  const SimpleEpilogue* epilogue = nullptr;
  int64_t out_stride = 0;  // bytes
  int64_t row = 0, column = 0;
  int64_t out_ahead = 0;     // bytes to what will be written a row later; 0: nothing
  bool out_is_cold = false;  // what is written now is in no first cache
  DepthwisePrefetch to_read, to_write;
};

// What the units export, by the type of x.
using ComputeDepthwiseRow = void (*)(const DepthwiseRow&);
extern const ComputeDepthwiseRow kDepthwiseF32Avx2;
extern const ComputeDepthwiseRow kDepthwiseBf16Avx2;
extern const ComputeDepthwiseRow kDepthwiseU8Avx2;
extern const ComputeDepthwiseRow kDepthwiseI8Avx2;
extern const ComputeDepthwiseRow kDepthwiseF32Avx512;
extern const ComputeDepthwiseRow kDepthwiseU8Avx512Vnni;
extern const ComputeDepthwiseRow kDepthwiseI8Avx512Vnni;
extern const ComputeDepthwiseRow kDepthwiseBf16Avx512Vnni;

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Interface between the depthwise driver and its kernels: one output row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "targets/cpu/kernels/gemm/epilogue_simple.h"

namespace lathe::cpu {

// One input row and the kernel row that multiplies it. Rows outside the input are omitted.
struct DepthwiseTapRow {
  const void* x = nullptr;         // channel 0 of column 0
  const float* weights = nullptr;  // [kernel][w_pitch], or pairs of int16
};

// Memory used soon, prefetched in equal shares by the blocks of outputs.
struct DepthwisePrefetch {
  const std::byte* at = nullptr;
  int64_t bytes = 0;
};

// Outputs `begin` to `end` of a row, all channels: y[o, c] = sum over rows and taps k of (x[o *
// stride + k * dilation - pad, c] - x_zero) * weights[k, c]. Rows and taps are added in ascending
// order; taps outside the input are omitted.
struct DepthwiseRow {
  const DepthwiseTapRow* rows = nullptr;
  int64_t row_count = 0;
  int64_t kernel = 1, stride = 1, dilation = 1, pad = 0;
  int64_t input = 0;           // columns
  int64_t begin = 0, end = 0;  // outputs
  int64_t channels = 0;
  int64_t x_pitch = 0, w_pitch = 0;  // elements between columns and between taps
  int32_t x_zero = 0;                // int8 only; accumulators are exact below 2^24
  // Without an epilogue: accumulators [end - begin][sums_pitch], f32, or i32 for int8. With an
  // epilogue: outputs; the first one is at (row, column) of the epilogue's operands.
  void* out = nullptr;
  int64_t sums_pitch = 0;
  const SimpleEpilogue* epilogue = nullptr;
  int64_t out_stride = 0;  // bytes
  int64_t row = 0, column = 0;
  int64_t next_row_out = 0;  // bytes to the output of the next row, prefetched; 0: none
  bool out_is_cold = false;  // y is not in L1
  DepthwisePrefetch to_read, to_write;
};

// Kernels by the type of x and instruction set.
using ComputeDepthwiseRow = void (*)(const DepthwiseRow&);
extern const ComputeDepthwiseRow kDepthwiseF32Avx2;
extern const ComputeDepthwiseRow kDepthwiseBf16Avx2;
extern const ComputeDepthwiseRow kDepthwiseU8Avx2;
extern const ComputeDepthwiseRow kDepthwiseI8Avx2;
extern const ComputeDepthwiseRow kDepthwiseF32Avx512;
extern const ComputeDepthwiseRow kDepthwiseU8Avx512Vnni;
extern const ComputeDepthwiseRow kDepthwiseI8Avx512Vnni;
extern const ComputeDepthwiseRow kDepthwiseBf16Avx512Bf16;

}  // namespace lathe::cpu

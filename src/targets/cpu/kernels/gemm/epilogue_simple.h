// SPDX-License-Identifier: MIT
// The epilogues that nearly all layers have: a number per column multiplied, one added, a residual,
// an activation. Kernels that hold sums of the same columns in registers apply them there.
#pragma once

#include "targets/cpu/kernels/gemm/epilogue.h"

namespace lathe::cpu {

// x = sum (+ column_compensation), x * scale, x + bias, x + residual, f(x), in this order; what is
// null is left out. The same operations in the same order as the steps that it stands for.
struct SimpleEpilogue {
  const int32_t* column_compensation = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const void* residual = nullptr;  // of f32 or of the output's type
  ElementType residual_type = ElementType::f32;
  int64_t residual_stride = 0;  // elements between rows
  bool has_activation = false;
  Activation activation = Activation::relu;
  float a = 0;
  float b = 0;
  ElementType out = ElementType::f32;  // f32, bf16, i8, u8
  float out_zero = 0;
};

// False if the epilogue does anything else.
bool simplify(const Epilogue& epilogue, SimpleEpilogue& simple);

}  // namespace lathe::cpu

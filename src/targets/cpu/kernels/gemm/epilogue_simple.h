// SPDX-License-Identifier: MIT
// The epilogues of nearly all layers: per-column scale and bias, residual, activation. Microkernels
// apply them to accumulators in registers.
#pragma once

#include "targets/cpu/kernels/gemm/epilogue.h"

namespace lathe::cpu {

// A rounding between the scale and the residual, of an activation that was quantised there.
struct Requantisation {
  float low = 0, high = 0;   // x saturates to them, then is rounded half to even
  float factor = 1;          // and multiplied
  float residual_scale = 1;  // the residual is (element - residual_zero) residual_scale
  float residual_zero = 0;
};

// x = accumulator (+ column_compensation), x * scale, x + bias, requantisation, x + residual, f(x),
// in this order; null steps are skipped. Bit-identical to the EpilogueSteps that it replaces.
struct SimpleEpilogue {
  const int32_t* column_compensation = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  const void* residual = nullptr;  // f32 or the output type
  ElementType residual_type = ElementType::f32;
  int64_t residual_stride = 0;  // elements between rows
  bool requantises = false;     // integers to i8 or u8, with a residual
  Requantisation requantisation;
  bool has_activation = false;
  Activation activation = Activation::relu;
  float a = 0;
  float b = 0;
  ElementType out = ElementType::f32;  // f32, bf16, i8, u8
  float out_zero = 0;
};

// Returns false if the epilogue has no simple form.
bool simplify(const Epilogue& epilogue, SimpleEpilogue& simple);

}  // namespace lathe::cpu

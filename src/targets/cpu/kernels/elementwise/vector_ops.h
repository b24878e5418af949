// SPDX-License-Identifier: MIT
// Functions of one number over arrays, on each instruction set.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Formulas, and bits, of the ops of these names.
enum class Activation : uint8_t {
  relu,
  leaky_relu,  // a: slope below 0
  clip,        // a, b: bounds
  sigmoid,
  silu,  // x sigmoid(a x)
  tanh,
  gelu,          // by erf
  gelu_tanh,     // by tanh
  elu,           // a: factor below 0
  hard_sigmoid,  // a x + b within 0 and 1
  hard_swish,
  exp,
  erf,
};
inline constexpr int kActivationCount = 13;

struct VectorOps {
  // y[i] = f(x[i]); x and y may be the same.
  void (*activate)(Activation f, float a, float b, const float* x, float* y, int64_t count);
  // Half to even, NaN stays.
  void (*to_bf16)(const float* x, uint16_t* y, int64_t count);
};
const VectorOps& vector_ops(Isa isa);

}  // namespace lathe::cpu

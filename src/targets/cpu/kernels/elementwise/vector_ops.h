// SPDX-License-Identifier: MIT
// Elementwise functions over arrays, per instruction set.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/convert.h"

namespace lathe::cpu {

// Same formulas as the ops with these names, bit-identical.
enum class Activation : uint8_t {
  relu,
  leaky_relu,  // a: slope below 0
  clip,        // a, b: bounds
  sigmoid,
  silu,  // x sigmoid(a x)
  tanh,
  gelu,          // with erf
  gelu_tanh,     // with tanh
  elu,           // a: factor below 0
  hard_sigmoid,  // a x + b, clamped to [0, 1]
  hard_swish,
  exp,
  erf,
};
inline constexpr int kActivationCount = 13;

struct VectorOps {
  // y[i] = f(x[i]); y may be x.
  void (*activate)(Activation f, float a, float b, const float* x, float* y, int64_t count);
  // Rounds half to even; NaN is preserved.
  void (*to_bf16)(const float* x, uint16_t* y, int64_t count);
  void (*to_f16)(const float* x, uint16_t* y, int64_t count);
  void (*from_bf16)(const uint16_t* x, float* y, int64_t count);
  void (*from_f16)(const uint16_t* x, float* y, int64_t count);
};
const VectorOps& vector_ops(Isa isa);

// As lathe::convert(), with vectors between f32 and 16-bit floats.
void convert_elements(const VectorOps& ops, ElementType to, void* dst, ElementType from,
                      const void* src, int64_t count, const ConvertOptions& options = {});

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Conversion between f32 and 8-bit integers with scale and zero point, and lookups of int8, over
// arrays.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// One scale and zero point for all elements, or one per element.
struct QuantizeScale {
  const float* scale = nullptr;
  const float* zero = nullptr;  // integers
  bool each = false;
};

// Bit-identical to quantize_linear and dequantize_linear.
struct QuantizeOps {
  void (*to_u8)(const float* x, const QuantizeScale& by, uint8_t* y, int64_t count);
  void (*to_i8)(const float* x, const QuantizeScale& by, int8_t* y, int64_t count);
  void (*from_u8)(const uint8_t* x, const QuantizeScale& by, float* y, int64_t count);
  void (*from_i8)(const int8_t* x, const QuantizeScale& by, float* y, int64_t count);
  // y[i] = table[x[i]]; `table` has 256 bytes.
  void (*look_up)(const uint8_t* x, const uint8_t* table, uint8_t* y, int64_t count);
};
const QuantizeOps& quantize_ops(Isa isa);

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Epilogue: compensation of integer accumulators, f32 arithmetic, one rounding to the output type.
#pragma once

#include <cstdint>
#include <span>

#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

// An operand broadcast over the output. Element (r, c) is at data + r row_stride + c column_stride
// and has the value (element - zero) scale. Types: f32, bf16, f16, i32, i8, u8. Stride 0
// broadcasts; column stride 1 is fast, others are supported.
struct Operand {
  const void* data = nullptr;  // null: the constant `scale`
  ElementType type = ElementType::f32;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  float scale = 1;
  float zero = 0;
};

// x = x OP operand; the reversed kinds compute operand OP x. `round`: saturates x to [a, b], then
// rounds half to even.
struct EpilogueStep {
  enum class Kind : uint8_t {
    add,
    sub,
    sub_reversed,
    mul,
    div,
    div_reversed,
    min,
    max,
    activate,
    round
  };
  Kind kind = Kind::add;
  Operand operand;
  Activation activation = Activation::relu;  // parameters a and b: see vector_ops.h
  float a = 0;
  float b = 0;
};

// Subtracts row[r] column[c] from an integer accumulator; a null side counts as 1.
struct OuterCompensation {
  const int32_t* row = nullptr;
  const int32_t* column = nullptr;
};

struct SimpleEpilogue;  // epilogue_simple.h
struct Epilogue;
struct EpilogueTile;

// Code that computes results from f32 accumulators in its own way; of the epilogue's steps it takes
// the operands alone.
struct TileCode {
  void (*run)(const TileCode& code, const Epilogue& epilogue, const EpilogueTile& tile) = nullptr;
};

struct Epilogue {
  // Integer accumulators, modulo 2^32: + column_compensation[c] - the outer compensations.
  const int32_t* column_compensation = nullptr;
  std::span<const OuterCompensation> outer;
  // f32 steps, applied in order.
  std::span<const EpilogueStep> steps;
  const TileCode* code = nullptr;  // null: none
  // Output type: f32, bf16, f16; or i8, u8, i32, rounded half to even, plus the zero point,
  // saturated. Integer accumulators without steps and zero point are stored to i32 exactly.
  ElementType out = ElementType::f32;
  Operand out_zero{.scale = 0};

  // Equivalent form that microkernels apply in registers; null if there is none or none was
  // computed.
  const SimpleEpilogue* simple = nullptr;

  bool keeps_sums() const {
    return column_compensation == nullptr && outer.empty() && steps.empty() && code == nullptr;
  }
};

// A rectangle of accumulators and its destination. Operand coordinates start at (row, column).
struct EpilogueTile {
  const void* sums = nullptr;  // f32 or i32
  bool integer_sums = false;
  int64_t sums_stride = 0;  // elements between rows
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row = 0;
  int64_t column = 0;
  void* out = nullptr;     // the rectangle's first element
  int64_t out_stride = 0;  // bytes between rows
};

constexpr int64_t out_size(ElementType out) {
  switch (out) {
    case ElementType::i8:
    case ElementType::u8:
      return 1;
    case ElementType::bf16:
    case ElementType::f16:
      return 2;
    default:
      return 4;
  }
}

using FinishTile = void (*)(const Epilogue&, const EpilogueTile&);
FinishTile finish_tile(Isa isa);

}  // namespace lathe::cpu

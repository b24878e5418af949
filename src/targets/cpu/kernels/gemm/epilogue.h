// SPDX-License-Identifier: MIT
// What is done to sums before they leave registers: corrections of integer sums, arithmetic in f32,
// one rounding to the type of the output.
#pragma once

#include <cstdint>
#include <span>

#include "targets/cpu/kernels/elementwise/vector_ops.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

// Numbers broadcast over the output: that of row r and column c lies at data + r row_stride +
// c column_stride elements and means (number - zero) scale. Types: f32, bf16, f16, i32, i8, u8.
// Strides of 0 broadcast; columns side by side (stride 1) are fast, other strides work.
struct Operand {
  const void* data = nullptr;  // null: the number `scale` everywhere
  ElementType type = ElementType::f32;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  float scale = 1;
  float zero = 0;
};

// x = x OP operand; the reversed ones are operand OP x.
struct EpilogueStep {
  enum class Kind : uint8_t { add, sub, sub_reversed, mul, div, div_reversed, min, max, activate };
  Kind kind = Kind::add;
  Operand operand;
  Activation activation = Activation::relu;  // with its parameters; see vector_ops.h
  float a = 0;
  float b = 0;
};

// Of an integer sum: row[r] column[c] is subtracted; a null side counts as 1.
struct OuterCompensation {
  const int32_t* row = nullptr;
  const int32_t* column = nullptr;
};

struct SimpleEpilogue;  // epilogue_simple.h

struct Epilogue {
  // Integer sums first, modulo 2^32: + column_compensation[c] - the outer products.
  const int32_t* column_compensation = nullptr;
  std::span<const OuterCompensation> outer;
  // Then f32, in this order.
  std::span<const EpilogueStep> steps;
  // Then the output: f32, bf16, f16; or i8, u8, i32, rounded half to even, plus the zero point,
  // saturated. Integer sums without steps, and without a zero point, go to i32 exactly.
  ElementType out = ElementType::f32;
  Operand out_zero{.scale = 0};

  // The same in the form that kernels keep in registers, if it has one and somebody found it.
  const SimpleEpilogue* simple = nullptr;

  bool keeps_sums() const {
    return column_compensation == nullptr && outer.empty() && steps.empty();
  }
};

// A rectangle of sums and where it goes. Coordinates of operands start at (row, column).
struct EpilogueTile {
  const void* sums = nullptr;  // f32 or i32
  bool integer_sums = false;
  int64_t sums_stride = 0;  // elements between rows
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row = 0;
  int64_t column = 0;
  void* out = nullptr;     // of the rectangle's first element
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

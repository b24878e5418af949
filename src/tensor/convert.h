// SPDX-License-Identifier: MIT
// Conversion between all element types, by the rules of ONNX's Cast operator.
#pragma once

#include <cstdint>

#include "tensor/element_type.h"
#include "tensor/float_formats.h"

namespace lathe {

struct ConvertOptions {
  bool saturate = true;                              // to 8-bit floats
  ScaleRounding scale_rounding = ScaleRounding::up;  // to f8e8m0
};

// Converts `count` elements side by side; buffers may have any alignment and must not overlap.
// Strings are std::string objects; packed types begin at a byte, and unused bits of the last byte
// become zero.
//
// To a float: rounded once, half to even. To an integer from a float: truncated; out of range as
// x86 has it: i64 and i32 give their lowest value, narrower ones the low bits of the i32, u32 the
// low bits of the i64, u64 wraps negative numbers, and gives 0 from 2^64 on and 2^63 for NaN. To
// an integer from an integer: the low bits. To bool: whether it is not zero (NaN is not). From
// complex: the real part; bool asks for both parts. Texts: number_text.h; bool becomes "1" or "0";
// complex numbers have no text (Unsupported).
void convert(ElementType to, void* dst, ElementType from, const void* src, int64_t count,
             const ConvertOptions& options = {});

// One element of an integer or bool buffer, packed ones included; u64 wraps.
int64_t load_int(ElementType type, const void* data, int64_t index);
// Keeps the low bits of `value` (bool: whether it is not zero).
void store_int(ElementType type, void* data, int64_t index, int64_t value);

// One element of a buffer of numbers, packed ones included, as convert() would give it; complex
// numbers give their real part.
double load_double(ElementType type, const void* data, int64_t index);
void store_double(ElementType type, void* data, int64_t index, double value,
                  const ConvertOptions& options = {});

}  // namespace lathe

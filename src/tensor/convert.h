// SPDX-License-Identifier: MIT
// Conversion between all element types, as in ONNX's Cast operator.
#pragma once

#include <cstdint>

#include "tensor/element_type.h"
#include "tensor/float_formats.h"

namespace lathe {

struct ConvertOptions {
  bool saturate = true;                              // to 8-bit floats
  ScaleRounding scale_rounding = ScaleRounding::up;  // to f8e8m0
};

// Converts `count` contiguous elements; buffers may have any alignment and must not overlap.
// Strings are std::string objects. Packed types start at a byte; unused bits of the last byte
// become zero.
//
// To a float: rounded once, half to even.
// Float to integer: truncated. Out of range as on x86: i64 and i32 saturate to their minimum,
// narrower types take the low bits of the i32, u32 the low bits of the i64. u64 wraps negative
// values; it becomes 0 from 2^64 on and 2^63 for NaN. Integer to integer: the low bits. To bool: x
// != 0 (NaN is true); complex: either part is not 0. From complex: the real part. Strings: see
// number_text.h; bool becomes "1" or "0"; complex is Unsupported.
void convert(ElementType to, void* dst, ElementType from, const void* src, int64_t count,
             const ConvertOptions& options = {});

// Reads one element of an integer or bool buffer, also of packed types; u64 wraps.
int64_t load_int(ElementType type, const void* data, int64_t index);
// Stores the low bits of `value` (bool: value != 0).
void store_int(ElementType type, void* data, int64_t index, int64_t value);

// Reads one element of any type but string, also of packed types, as convert() to f64 does.
double load_double(ElementType type, const void* data, int64_t index);
void store_double(ElementType type, void* data, int64_t index, double value,
                  const ConvertOptions& options = {});

}  // namespace lathe

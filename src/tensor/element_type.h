// SPDX-License-Identifier: MIT
// The table of ONNX element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lathe {

enum class ElementType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,
  i2,
  i4,
  i8,
  i16,
  i32,
  i64,
  u2,
  u4,
  u8,
  u16,
  u32,
  u64,
  boolean,
  c64,
  c128,
  string,
};

enum class ElementClass : uint8_t { floating, signed_int, unsigned_int, boolean, complex, string };

struct ElementTypeInfo {
  ElementType type;
  std::string_view name;  // in the text form: "f32", "bool", …
  int bits;               // per element; below 8: packed, low bits first; 0 for string
  ElementClass cls;
  int onnx;  // value of onnx.TensorProto.DataType
};

std::span<const ElementTypeInfo> element_types();
const ElementTypeInfo& info(ElementType type);
std::optional<ElementType> element_type_from_name(std::string_view name);
std::optional<ElementType> element_type_from_onnx(int64_t data_type);

inline std::string_view to_string(ElementType type) { return info(type).name; }
inline bool is_floating(ElementType type) { return info(type).cls == ElementClass::floating; }
inline bool is_integer(ElementType type) {
  return info(type).cls == ElementClass::signed_int || info(type).cls == ElementClass::unsigned_int;
}
// True for types below 8 bits, whose elements share bytes.
inline bool is_packed(ElementType type) { return info(type).bits < 8 && info(type).bits > 0; }
// Bytes of `count` contiguous elements. Internal for string.
int64_t bytes_for(ElementType type, int64_t count);
// Alignment in bytes; complex: of its parts; packed: 1.
size_t alignment_of(ElementType type);

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "tensor/element_type.h"

#include <array>
#include <limits>
#include <string>

#include "base/error.h"

namespace lathe {
namespace {

using enum ElementClass;

// In the order of ElementType: info() indexes it.
constexpr std::array kTypes{
    ElementTypeInfo{ElementType::f32, "f32", 32, floating, 1},
    ElementTypeInfo{ElementType::f64, "f64", 64, floating, 11},
    ElementTypeInfo{ElementType::f16, "f16", 16, floating, 10},
    ElementTypeInfo{ElementType::bf16, "bf16", 16, floating, 16},
    ElementTypeInfo{ElementType::f8e4m3fn, "f8e4m3fn", 8, floating, 17},
    ElementTypeInfo{ElementType::f8e4m3fnuz, "f8e4m3fnuz", 8, floating, 18},
    ElementTypeInfo{ElementType::f8e5m2, "f8e5m2", 8, floating, 19},
    ElementTypeInfo{ElementType::f8e5m2fnuz, "f8e5m2fnuz", 8, floating, 20},
    ElementTypeInfo{ElementType::f8e8m0, "f8e8m0", 8, floating, 24},
    ElementTypeInfo{ElementType::f4e2m1, "f4e2m1", 4, floating, 23},
    ElementTypeInfo{ElementType::i2, "i2", 2, signed_int, 26},
    ElementTypeInfo{ElementType::i4, "i4", 4, signed_int, 22},
    ElementTypeInfo{ElementType::i8, "i8", 8, signed_int, 3},
    ElementTypeInfo{ElementType::i16, "i16", 16, signed_int, 5},
    ElementTypeInfo{ElementType::i32, "i32", 32, signed_int, 6},
    ElementTypeInfo{ElementType::i64, "i64", 64, signed_int, 7},
    ElementTypeInfo{ElementType::u2, "u2", 2, unsigned_int, 25},
    ElementTypeInfo{ElementType::u4, "u4", 4, unsigned_int, 21},
    ElementTypeInfo{ElementType::u8, "u8", 8, unsigned_int, 2},
    ElementTypeInfo{ElementType::u16, "u16", 16, unsigned_int, 4},
    ElementTypeInfo{ElementType::u32, "u32", 32, unsigned_int, 12},
    ElementTypeInfo{ElementType::u64, "u64", 64, unsigned_int, 13},
    ElementTypeInfo{ElementType::boolean, "bool", 8, ElementClass::boolean, 9},
    ElementTypeInfo{ElementType::c64, "c64", 64, complex, 14},
    ElementTypeInfo{ElementType::c128, "c128", 128, complex, 15},
    ElementTypeInfo{ElementType::string, "string", 0, ElementClass::string, 8},
};

constexpr bool is_indexed_by_type() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(is_indexed_by_type());

}  // namespace

std::span<const ElementTypeInfo> element_types() { return kTypes; }

const ElementTypeInfo& info(ElementType type) {
  const auto index = static_cast<size_t>(type);
  check(index < kTypes.size(), ErrorKind::internal,
        "element type {} is out of range, expected less than {}", index, kTypes.size());
  return kTypes[index];
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (const ElementTypeInfo& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

std::optional<ElementType> element_type_from_onnx(int64_t data_type) {
  for (const ElementTypeInfo& entry : kTypes) {
    if (entry.onnx == data_type) return entry.type;
  }
  return std::nullopt;
}

int64_t bytes_for(ElementType type, int64_t count) {
  const int bits = info(type).bits;
  check(bits > 0, ErrorKind::internal, "cannot compute bytes of {} elements of {}", count,
        info(type).name);
  check(count >= 0, ErrorKind::invalid_argument, "a buffer of {} has {} elements, expected >= 0",
        info(type).name, count);
  if (bits < 8) {
    const int64_t per_byte = 8 / bits;
    return count / per_byte + (count % per_byte != 0 ? 1 : 0);
  }
  const int64_t bytes = bits / 8;
  check(count <= std::numeric_limits<int64_t>::max() / bytes, ErrorKind::out_of_memory,
        "{} elements of {} exceed the address space", count, info(type).name);
  return count * bytes;
}

size_t alignment_of(ElementType type) {
  if (type == ElementType::string) return alignof(std::string);
  const size_t bytes = static_cast<size_t>(info(type).bits + 7) / 8;
  return info(type).cls == ElementClass::complex ? bytes / 2 : bytes;
}

}  // namespace lathe

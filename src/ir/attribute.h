// SPDX-License-Identifier: MIT
// Compile-time arguments of ops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "tensor/element_type.h"

namespace lathe {

using Integers = std::vector<int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

// Alternatives in the order of AttributeKind. A struct, so that its special members are compiled
// once and not in each op's file.
struct Attribute : std::variant<int64_t, double, bool, std::string, ElementType, Integers, Numbers,
                                Texts, std::vector<Dim>, Type> {
  using variant::variant;
  Attribute();
  Attribute(const Attribute& other);
  Attribute(Attribute&& other) noexcept;
  Attribute& operator=(const Attribute& other);
  Attribute& operator=(Attribute&& other) noexcept;
  ~Attribute();
};

enum class AttributeKind : uint8_t {
  integer,
  number,
  boolean,
  text,
  element_type,
  integers,
  numbers,
  texts,
  dims,
  type,
};
inline AttributeKind kind_of(const Attribute& value) {
  return static_cast<AttributeKind>(value.index());
}
std::string_view to_string(AttributeKind kind);
// In the spelling of the text form: 1, 1.5, true, "text", f32, [1, 2], dims(batch, 4),
// type(f32[2]).
std::string to_string(const Attribute& value);

// Sorted by name; holds every declared attribute that has a value, defaults included.
using Attributes = std::vector<std::pair<std::string, Attribute>>;
const Attribute* find_attribute(const Attributes& attributes, std::string_view name);

}  // namespace lathe

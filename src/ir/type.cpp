// SPDX-License-Identifier: MIT
#include "ir/type.h"

#include <fmt/format.h>

namespace lathe {

Type Type::tensor(ElementType element, std::vector<Dim> dims) {
  Type type;
  type.element = element;
  type.dims = std::move(dims);
  return type;
}

Type Type::unranked(ElementType element) {
  Type type;
  type.element = element;
  return type;
}

Type Type::sequence(Type item) {
  Type type;
  type.kind = Kind::sequence;
  type.item = std::make_shared<const Type>(std::move(item));
  return type;
}

Type Type::optional(Type item) {
  Type type = sequence(std::move(item));
  type.kind = Kind::optional;
  return type;
}

Type Type::map(ElementType key, Type value) {
  Type type = sequence(std::move(value));
  type.kind = Kind::map;
  type.element = key;
  return type;
}

std::string Type::to_string() const {
  switch (kind) {
    case Kind::sequence:
      return fmt::format("seq<{}>", item->to_string());
    case Kind::optional:
      return fmt::format("opt<{}>", item->to_string());
    case Kind::map:
      return fmt::format("map<{}, {}>", info(element).name, item->to_string());
    case Kind::tensor:
      break;
  }
  std::string text(info(element).name);
  if (!dims) return text + "[*]";
  text += '[';
  for (size_t i = 0; i < dims->size(); ++i) {
    if (i > 0) text += ", ";
    text += (*dims)[i].to_string();
  }
  return text + ']';
}

bool operator==(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.kind != Type::Kind::tensor) {
    return *a.item == *b.item && (a.kind != Type::Kind::map || a.element == b.element);
  }
  return a.element == b.element && a.dims == b.dims;
}

Dim element_count(const std::vector<Dim>& dims) {
  Dim count = 1;
  for (const Dim& dim : dims) count = count * dim;
  return count;
}

std::optional<Type> join_types(const Type& a, const Type& b,
                               const std::function<Dim(int axis)>& found) {
  if (a.kind != b.kind) {
    // A value converts to an optional that is not empty.
    const bool first = a.kind == Type::Kind::optional;
    if (!first && b.kind != Type::Kind::optional) return std::nullopt;
    std::optional<Type> item =
        first ? join_types(*a.item, b, found) : join_types(a, *b.item, found);
    if (!item) return std::nullopt;
    return Type::optional(std::move(*item));
  }
  if (a.kind != Type::Kind::tensor) {
    if (a.kind == Type::Kind::map && a.element != b.element) return std::nullopt;
    // Items of two sequences differ between runs: their dims cannot be symbols of one run.
    if (*a.item == *b.item) return a;
    if (!a.item->is_tensor() || !b.item->is_tensor()) {
      const std::optional<Type> item = join_types(*a.item, *b.item, found);
      if (!item) return std::nullopt;
      Type joined = a;
      joined.item = std::make_shared<const Type>(*item);
      return joined;
    }
    if (a.item->element != b.item->element) return std::nullopt;
    Type joined = a;
    joined.item = std::make_shared<const Type>(Type::unranked(a.item->element));
    return joined;
  }
  if (a.element != b.element) return std::nullopt;
  if (!a.dims || !b.dims || a.dims->size() != b.dims->size()) return Type::unranked(a.element);
  std::vector<Dim> dims = *a.dims;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (!(dims[axis] == (*b.dims)[axis])) dims[axis] = found(static_cast<int>(axis));
  }
  return Type::tensor(a.element, std::move(dims));
}

}  // namespace lathe

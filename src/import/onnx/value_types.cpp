// SPDX-License-Identifier: MIT
#include "import/onnx/value_types.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lathe::onnx {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Makes a symbol's name: characters that are not allowed become '_'.
std::string symbol_name(std::string_view text) {
  constexpr size_t kMost = 100;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    if (is_word(c)) {
      out += c;
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty() || (out.front() >= '0' && out.front() <= '9')) out.insert(0, "d");
  return out;
}

// Exporters' placeholders for unnamed sizes; equal ones are unrelated.
bool names_nothing(std::string_view text) {
  constexpr std::array<std::string_view, 3> kPlaceholders{"None", "?", "-1"};
  if (std::find(kPlaceholders.begin(), kPlaceholders.end(), text) != kPlaceholders.end())
    return true;
  return std::none_of(text.begin(), text.end(), is_word);
}

ElementType element_of(const ValueType& type, std::string_view name) {
  check(type.element.has_value(), ErrorKind::invalid_model,
        "the element type of '{}' is not declared", escape(name));
  return *type.element;
}

// Types of containers; `item_type` converts the item's type.
template <class F>
Type holder_of(const ValueType& type, std::string_view name, F&& item_type) {
  check(type.item != nullptr, ErrorKind::invalid_model, "'{}' is declared without an item type",
        escape(name));
  if (type.kind == ValueType::Kind::sequence) return Type::sequence(item_type(*type.item));
  if (type.kind == ValueType::Kind::optional) return Type::optional(item_type(*type.item));
  check(type.kind == ValueType::Kind::map, ErrorKind::invalid_model, "'{}' has no type",
        escape(name));
  return Type::map(element_of(type, name), item_type(*type.item));
}

}  // namespace

Dim InputSymbols::extent(const Extent& extent, std::string_view name, size_t axis) {
  if (extent.value >= 0) return extent.value;
  if (names_nothing(extent.symbol)) {
    return program_.add_symbol(fmt::format("{}_{}", symbol_name(name), axis), SymbolKind::bound,
                               {0, kUnbounded});
  }
  SymbolRef& symbol = named_[std::string(extent.symbol)];
  if (symbol == nullptr) {
    symbol = program_.add_symbol(symbol_name(extent.symbol), SymbolKind::bound, {0, kUnbounded});
  }
  return symbol;
}

Type InputSymbols::type_of(const ValueType& type, std::string_view name) {
  if (type.kind != ValueType::Kind::tensor) return fixed_type(type, name);
  const ElementType element = element_of(type, name);
  if (!type.extents) return Type::unranked(element);
  check(type.extents->size() <= static_cast<size_t>(kMaxRank), ErrorKind::unsupported,
        "input '{}' has rank {}, at most {} is supported", escape(name), type.extents->size(),
        kMaxRank);
  std::vector<Dim> dims;
  for (size_t axis = 0; axis < type.extents->size(); ++axis) {
    dims.push_back(extent((*type.extents)[axis], name, axis));
  }
  return Type::tensor(element, std::move(dims));
}

Type fixed_type(const ValueType& type, std::string_view name) {
  if (type.kind != ValueType::Kind::tensor) {
    return holder_of(type, name, [&](const ValueType& item) { return fixed_type(item, name); });
  }
  const ElementType element = element_of(type, name);
  if (!type.extents || type.extents->size() > static_cast<size_t>(kMaxRank))
    return Type::unranked(element);
  std::vector<Dim> dims;
  for (const Extent& extent : *type.extents) {
    if (extent.value < 0) return Type::unranked(element);
    dims.push_back(extent.value);
  }
  return Type::tensor(element, std::move(dims));
}

bool is_other_type(const ValueType& declared, const Type& inferred) {
  if (declared.kind == ValueType::Kind::unknown || inferred.kind == Type::Kind::optional) {
    return false;
  }
  if ((declared.kind == ValueType::Kind::tensor) != inferred.is_tensor()) {
    return declared.kind != ValueType::Kind::optional;
  }
  return inferred.is_tensor() && declared.element && *declared.element != inferred.element;
}

std::string contradiction(const ValueType& declared, const Type& inferred) {
  if (declared.kind == ValueType::Kind::unknown) return "";
  const bool tensor = declared.kind == ValueType::Kind::tensor;
  if (tensor != inferred.is_tensor()) return "another kind of value";
  if (!tensor) return "";
  if (declared.element && *declared.element != inferred.element) {
    return fmt::format("element type {}", to_string(*declared.element));
  }
  if (!declared.extents || !inferred.dims) return "";
  if (declared.extents->size() != inferred.dims->size()) {
    return fmt::format("rank {}", declared.extents->size());
  }
  for (size_t axis = 0; axis < inferred.dims->size(); ++axis) {
    const int64_t value = (*declared.extents)[axis].value;
    if (value >= 0 && equal((*inferred.dims)[axis], value) == Ternary::no) {
      return fmt::format("size {} on axis {}", value, axis);
    }
  }
  return "";
}

}  // namespace lathe::onnx

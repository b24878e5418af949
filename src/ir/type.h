// SPDX-License-Identifier: MIT
// Types of values: tensors with symbolic dims, sequences, optionals, maps.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dim.h"
#include "tensor/element_type.h"

namespace lathe {

struct Type {
  enum class Kind : uint8_t { tensor, sequence, optional, map };

  Kind kind = Kind::tensor;
  ElementType element = ElementType::f32;  // of a tensor; key of a map
  std::optional<std::vector<Dim>> dims;    // of a tensor; nullopt: unknown rank
  std::shared_ptr<const Type> item;        // of a sequence or optional; value of a map

  static Type tensor(ElementType element, std::vector<Dim> dims);
  static Type unranked(ElementType element);
  static Type sequence(Type item);
  static Type optional(Type item);
  static Type map(ElementType key, Type value);

  bool is_tensor() const { return kind == Kind::tensor; }
  bool is_ranked() const { return is_tensor() && dims.has_value(); }
  int rank() const { return static_cast<int>(dims->size()); }  // ranked tensors only
  // Held in a box at run time (a counted object), not in a plain buffer.
  bool is_boxed() const { return !is_ranked() || element == ElementType::string; }

  // "f32[batch, 4]", "f32[]" (a scalar), "f32[*]" (unknown rank), "seq<f32[*]>", "opt<…>",
  // "map<i64, …>".
  std::string to_string() const;
  friend bool operator==(const Type& a, const Type& b);
};

// Product of the dims (1 for none).
Dim element_count(const std::vector<Dim>& dims);

// The type that both may be seen as: equal dims stay, others become the result of `found(axis)`,
// different ranks give an unranked type; nullopt if kinds or element types differ.
std::optional<Type> join_types(const Type& a, const Type& b,
                               const std::function<Dim(int axis)>& found);

}  // namespace lathe

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
  ElementType element = ElementType::f32;  // tensor: elements; map: keys
  std::optional<std::vector<Dim>> dims;    // tensor; nullopt: unknown rank
  std::shared_ptr<const Type> item;        // sequence, optional: items; map: values

  static Type tensor(ElementType element, std::vector<Dim> dims);
  static Type unranked(ElementType element);
  static Type sequence(Type item);
  static Type optional(Type item);
  static Type map(ElementType key, Type value);

  bool is_tensor() const { return kind == Kind::tensor; }
  bool is_ranked() const { return is_tensor() && dims.has_value(); }
  int rank() const { return static_cast<int>(dims->size()); }  // ranked tensors only
  // Stored in a reference-counted Box at run time, not in a plain buffer.
  bool is_boxed() const { return !is_ranked() || element == ElementType::string; }

  // "f32[batch, 4]", "f32[]" (a scalar), "f32[*]" (unknown rank), "seq<f32[*]>", "opt<…>",
  // "map<i64, …>".
  std::string to_string() const;
  friend bool operator==(const Type& a, const Type& b);
};

// Product of the dims (1 for a scalar).
Dim element_count(const std::vector<Dim>& dims);

// The common type: equal dims are kept, others become `found(axis)`, different ranks make it
// unranked; nullopt if kinds or element types differ.
std::optional<Type> join_types(const Type& a, const Type& b,
                               const std::function<Dim(int axis)>& found);

}  // namespace lathe

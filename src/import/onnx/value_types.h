// SPDX-License-Identifier: MIT
// Converts types of the graph view to types of the IR.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "import/onnx/graph_view.h"
#include "ir/program.h"

namespace lathe::onnx {

// One symbol per dim_param, shared by all inputs that name it; one per unnamed unknown size.
class InputSymbols {
 public:
  explicit InputSymbols(Program& program) : program_(program) {}

  // The type of input `name`; unknown sizes become bound symbols. Unsupported or InvalidModel if
  // the IR has no such type.
  Type type_of(const ValueType& type, std::string_view name);

 private:
  Dim extent(const Extent& extent, std::string_view name, size_t axis);

  Program& program_;
  std::map<std::string, SymbolRef, std::less<>> named_;
};

// The type without symbols: a tensor with an unknown size has unknown rank.
Type fixed_type(const ValueType& type, std::string_view name);

// Describes the first difference between a declared and an inferred type: kind, element type, rank
// or known size. "" if they agree; a symbol agrees with every size.
std::string contradiction(const ValueType& declared, const Type& inferred);
// True if kinds or element types of tensors differ. An optional agrees with its element.
bool is_other_type(const ValueType& declared, const Type& inferred);

}  // namespace lathe::onnx

// SPDX-License-Identifier: MIT
// Types of the graph view as types of the IR.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "import/onnx/graph_view.h"
#include "ir/program.h"

namespace lathe::onnx {

// One symbol per dim_param, shared by all inputs that name it; one for each extent without a name.
class InputSymbols {
 public:
  explicit InputSymbols(Program& program) : program_(program) {}

  // The type of input `name`; unknown extents become bound symbols. Unsupported or InvalidModel if
  // the IR has no such type.
  Type type_of(const ValueType& type, std::string_view name);

 private:
  Dim extent(const Extent& extent, std::string_view name, size_t axis);

  Program& program_;
  std::map<std::string, SymbolRef, std::less<>> named_;
};

// The same without symbols: tensors with an extent that is not fixed have unknown rank.
Type fixed_type(const ValueType& type, std::string_view name);

// What contradicts between a declared and an inferred type, "" if nothing: kinds, element types,
// ranks and fixed extents. Symbols agree with everything.
std::string contradiction(const ValueType& declared, const Type& inferred);

}  // namespace lathe::onnx

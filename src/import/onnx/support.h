// SPDX-License-Identifier: MIT
// The supported ONNX operators, for documents.
#pragma once

#include <string>

namespace lathe::onnx {

// The table of operators as JSON, one object per row: {"domain", "operator", "since", "op" (null:
// no op of its own), "supported", "plain" (operands in order), "operands": [[element types, or
// "any value"], …]}. A variadic operand is the last; the row has "variadic": true.
std::string support_json();

}  // namespace lathe::onnx

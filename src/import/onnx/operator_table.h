// SPDX-License-Identifier: MIT
// The table of supported ONNX operators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "import/onnx/node_import.h"

namespace lathe::onnx {

// The newest opset of the standard domain that the table covers, and how many later ones are
// imported with its definitions.
inline constexpr int kNewestOpset = 28;
inline constexpr int kNewerOpsets = 5;

using ImportFunction = void (*)(NodeImport& c);

struct OperatorRow {
  std::string_view domain;
  std::string_view op_type;
  int16_t since;          // the first opset version of the row
  int16_t inputs = -1;    // the most inputs of its schemas; -1: those of the op's operands
  uint32_t required = 0;  // a bit for each input that a node must have; unused if `inputs` is -1
  // Null: imports as one instruction of `op`, operands in order, attributes by name.
  ImportFunction import = nullptr;
  // The op, if its name differs from the operator's, then alternatives for other element types;
  // "-" if it needs no op of its own.
  std::string_view op{};
};

std::span<const OperatorRow> operator_rows();  // sorted by domain, operator, version

// The row with the greatest `since` up to `version`; null for an unknown operator.
const OperatorRow* find_operator(std::string_view domain, std::string_view op_type,
                                 int64_t version);
// The op of a row; null if the row needs none or Lathe does not have it.
const Op* op_of(const OperatorRow& row);
std::vector<const Op*> ops_of(const OperatorRow& row);
// The most inputs that a node may have (INT16_MAX: any number), a bit for each that it must have.
struct InputRule {
  int most;
  uint32_t required;
};
InputRule inputs_of(const OperatorRow& row);
// True if Lathe has the row's ops.
bool is_supported(const OperatorRow& row);

}  // namespace lathe::onnx

// SPDX-License-Identifier: MIT
// Every ONNX operator that has an import, in one table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "import/onnx/node_import.h"

namespace lathe::onnx {

// The newest opset of the standard domain that the table was written for.
inline constexpr int kNewestOpset = 28;

using ImportFunction = void (*)(NodeImport& c);

struct OperatorRow {
  std::string_view domain;
  std::string_view op_type;
  int since;  // the first version of the domain for which this row holds
  // Null: one instruction of `op`, operands in order, attributes by name.
  ImportFunction import = nullptr;
  // The op it becomes, where its name is not the operator's, and behind it others that take what
  // that one does not; "-" if it needs none of its own.
  std::string_view op{};
};

std::span<const OperatorRow> operator_rows();  // sorted by domain, operator, version

// The row with the greatest `since` up to `version`; null if there is none.
const OperatorRow* find_operator(std::string_view domain, std::string_view op_type,
                                 int64_t version);
// The op of a row; null if it needs none or Lathe lacks it.
const Op* op_of(const OperatorRow& row);
std::vector<const Op*> ops_of(const OperatorRow& row);
// Whether what the row needs exists.
bool is_supported(const OperatorRow& row);

}  // namespace lathe::onnx

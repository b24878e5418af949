// SPDX-License-Identifier: MIT
// Parses the rows of tests/ops/*.test (see tests/ops/README.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "tensor/box.h"

namespace lathe::test {

// An operand or result of a row.
struct RowValue {
  bool absent = false;
  Type type;
  Box box;
};

struct OpRow {
  std::string file;  // as passed, for messages and --file
  int line = 0;
  std::string sentence;  // the comment before the row
  std::string op;
  std::vector<RowValue> operands;
  Attributes attributes;
  std::vector<RowValue> results;
  std::optional<std::string> error;  // part of the expected message
  std::optional<double> tolerance;
  bool is_static = false;  // inference requires constant shapes
  // `run` rows: the text of the program, and later runs in the same session.
  std::string program;
  std::vector<OpRow> then;
};

// Parses all rows of a file; InvalidArgument with file and line on errors.
std::vector<OpRow> read_op_rows(const std::string& file);

}  // namespace lathe::test

// SPDX-License-Identifier: MIT
// Reads the rows of tests/ops/*.test: see tests/ops/README.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "tensor/box.h"

namespace lathe::test {

// An operand or result as a row states it.
struct RowValue {
  bool absent = false;
  Type type;
  Box box;
};

struct OpRow {
  std::string file;  // as given, for messages and --file
  int line = 0;
  std::string sentence;  // the comment before the row
  std::string op;
  std::vector<RowValue> operands;
  Attributes attributes;
  std::vector<RowValue> results;
  std::optional<std::string> error;  // part of the expected message
  std::optional<double> tolerance;
  bool is_static = false;  // inference needs constant extents
  // `run` rows: the text of the program they run, and the runs that follow in the same session.
  std::string program;
  std::vector<OpRow> then;
};

// All rows of a file, or an InvalidArgument error with file and line.
std::vector<OpRow> read_op_rows(const std::string& file);

}  // namespace lathe::test

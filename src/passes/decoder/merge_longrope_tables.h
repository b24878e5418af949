// SPDX-License-Identifier: MIT
// Long-context decoders choose their rotary tables by how long the sequence is. Both tables become
// one, so that each row reads the part its own sequence wants.
#pragma once

#include <optional>
#include <string>

#include "ir/program.h"

namespace lathe {

struct LongRopeSwitch {
  int64_t most_short = 0;  // sequences up to this length read the tables' first part
  int64_t first_long = 0;  // where the other part begins: position p reads row first_long + p
};

// The names and extents by which a program knows the length.
struct LongRopeNames {
  const Value* tokens = nullptr;     // [batch, rows]
  const Value* positions = nullptr;  // may be null
  std::string rows;                  // of the parameter to add: i64 [batch, rows], rows of tables
  std::vector<Dim> totals;           // extents that are past and new rows together
};

// Replaces each `if` and `where` on the total length that chooses between literals, and the
// positions by which its results are read. Nothing is changed, and nothing returned, where there is
// none, or one is not understood.
std::optional<LongRopeSwitch> merge_longrope_tables(Program& program, const LongRopeNames& names);

}  // namespace lathe

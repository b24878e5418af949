// SPDX-License-Identifier: MIT
// LongRoPE decoders select short or long cos/sin caches by the sequence's length. Both become one
// table, so that each token of a packed run reads the part of its own sequence.
#pragma once

#include <optional>
#include <string>

#include "ir/program.h"

namespace lathe {

struct LongRopeSwitch {
  int64_t max_short = 0;   // sequences up to this length read the first part, in tokens
  int64_t first_long = 0;  // offset of the second part: position p is at first_long + p
};

// Inputs and dims by which a program selects its cos/sin caches.
struct LongRopeNames {
  const Value* tokens = nullptr;     // [batch, tokens]
  const Value* positions = nullptr;  // may be null
  std::string table_rows;   // parameter to add: i64 [batch, tokens], indices into the table
  std::vector<Dim> totals;  // dims that equal past and new tokens together
};

// Merges the tables of each `if` and `where` that selects literals by the total length. Their
// readers then use the new parameter. Returns nullopt and changes nothing if there is none or one
// does not match.
std::optional<LongRopeSwitch> merge_longrope_tables(Program& program, const LongRopeNames& names);

}  // namespace lathe

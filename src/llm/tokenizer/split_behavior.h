// SPDX-License-Identifier: MIT
// The treatment of the delimiters at which a text is split.
#pragma once

#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// "the-final--countdown" split at '-':
enum class SplitBehavior {
  removed,               // the final countdown
  isolated,              // the - final - - countdown
  merged_with_previous,  // the- final- - countdown
  merged_with_next,      // the -final - -countdown
  contiguous,            // the - final -- countdown
};
SplitBehavior read_behavior(std::string_view name, std::string_view where);

// Appends the pieces of `whole` to `pieces`. `matches` are the delimiters, relative to `whole`,
// ascending and disjoint. `invert`: the text between them is the delimiters.
void add_split(Range whole, const std::vector<Range>& matches, SplitBehavior behavior, bool invert,
               std::vector<Range>& pieces);

}  // namespace lathe::tokenizer

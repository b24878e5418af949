// SPDX-License-Identifier: MIT
// Patterns that many tokenizers share, matched by code written for them.
#pragma once

#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// Appends all matches in `text`, as the pattern finds them.
using FastPattern = void (*)(std::string_view text, std::vector<Range>& matches);

// nullptr if there is none for the pattern.
FastPattern find_fast_pattern(std::string_view pattern);

}  // namespace lathe::tokenizer

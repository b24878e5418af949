// SPDX-License-Identifier: MIT
// Hand-written matchers of common split patterns.
#pragma once

#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// Appends all matches of the pattern in `text`.
using FastPattern = void (*)(std::string_view text, std::vector<Range>& matches);

// The matcher of a pattern, or nullptr.
FastPattern find_fast_pattern(std::string_view pattern);

}  // namespace lathe::tokenizer

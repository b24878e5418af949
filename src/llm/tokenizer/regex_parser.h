// SPDX-License-Identifier: MIT
// Parses a pattern in Oniguruma's Ruby syntax to sets of characters and operators of PCRE2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer {

struct ParsedRegex {
  static constexpr int kNoSet = -1;
  // A part of the pattern: PCRE2 operators, then one character of a set.
  struct Part {
    std::string text;  // before the set
    int set = kNoSet;
  };
  std::vector<Part> parts;
  std::vector<unicode::CodeSet> sets;  // all different
};

// InvalidModel for a malformed pattern. Unsupported for back references, calls, conditions and
// absence operators.
ParsedRegex parse_regex(std::string_view pattern);

}  // namespace lathe::tokenizer

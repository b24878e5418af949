// SPDX-License-Identifier: MIT
// Reads a pattern in Oniguruma's Ruby syntax; what remains are sets of characters and operators
// that PCRE2 understands alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer {

struct ParsedRegex {
  static constexpr int kNoSet = -1;
  // One character out of a set, or text in PCRE2's syntax that holds no character itself.
  struct Part {
    std::string text;  // before the set
    int set = kNoSet;
  };
  std::vector<Part> parts;
  std::vector<unicode::CodeSet> sets;  // all different
};

// Fails with InvalidModel for a malformed pattern, Unsupported for constructs that are not covered
// (back references, calls, conditions, absence).
ParsedRegex parse_regex(std::string_view pattern);

}  // namespace lathe::tokenizer

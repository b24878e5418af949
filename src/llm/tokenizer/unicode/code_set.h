// SPDX-License-Identifier: MIT
// Named sets of characters in Oniguruma's patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer::unicode {

CodeSet unite(const CodeSet& a, const CodeSet& b);
CodeSet intersect(const CodeSet& a, const CodeSet& b);
CodeSet complement(const CodeSet& set);
bool contains(const CodeSet& set, char32_t character);

// \p{name}; ignores case, spaces, '-' and '_'. nullopt for an unknown name.
std::optional<CodeSet> property(std::string_view name);
// True for names of \w, which differs within brackets.
bool names_word(std::string_view name);
// [[:name:]].
std::optional<CodeSet> posix_class(std::string_view name);
// \w \s \d \h; some differ within brackets.
CodeSet escape_class(char letter, bool in_brackets = false);

// Adds every character that equals one of `set` if case is ignored.
CodeSet close_over_case(const CodeSet& set);
// The characters that equal a string if case is ignored (ß and ss), with the strings.
const std::vector<std::pair<char32_t, std::u32string>>& several_folds();

}  // namespace lathe::tokenizer::unicode

// SPDX-License-Identifier: MIT
// Sets of characters as patterns of Oniguruma name them.
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

// \p{name}; case, spaces, '-' and '_' do not matter. nullopt if there is none.
std::optional<CodeSet> property(std::string_view name);
// Whether a name is that of \w, which is another within brackets.
bool names_word(std::string_view name);
// [[:name:]].
std::optional<CodeSet> posix_class(std::string_view name);
// \w \s \d \h; some are others within brackets.
CodeSet escape_class(char letter, bool in_brackets = false);

// With every character that equals one of `set` where case is ignored.
CodeSet close_over_case(const CodeSet& set);
// The characters that several characters equal where case is ignored (ß for ss), and those.
const std::vector<std::pair<char32_t, std::u32string>>& several_folds();

}  // namespace lathe::tokenizer::unicode

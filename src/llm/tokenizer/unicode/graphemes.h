// SPDX-License-Identifier: MIT
// Grapheme clusters: what a reader takes for one character.
#pragma once

#include <cstddef>
#include <string_view>

namespace lathe::tokenizer::unicode {

// Where the cluster that begins at `at` ends; `at` is before the end of the text.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace lathe::tokenizer::unicode

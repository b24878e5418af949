// SPDX-License-Identifier: MIT
// Grapheme clusters: user-perceived characters.
#pragma once

#include <cstddef>
#include <string_view>

namespace lathe::tokenizer::unicode {

// The end of the cluster that begins at `at`, which is before the end of the text.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace lathe::tokenizer::unicode

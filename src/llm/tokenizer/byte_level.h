// SPDX-License-Identifier: MIT
// Bytes written as characters, as vocabularies of GPT-2 and its kin have them.
#pragma once

#include <string>
#include <string_view>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// Puts a character in the place of each byte; `pieces`, if given, are ranges of the text before and
// of the new one after.
void write_bytes_as_characters(AlignedText& text, std::vector<Range>* pieces);

}  // namespace lathe::tokenizer

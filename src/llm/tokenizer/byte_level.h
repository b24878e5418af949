// SPDX-License-Identifier: MIT
// The byte-level alphabet of GPT-2: one printable character per byte.
#pragma once

#include <string>
#include <string_view>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// Replaces each byte by its character. Converts `pieces`, if not null, to ranges of the new text.
void write_bytes_as_characters(AlignedText& text, std::vector<Range>* pieces);

}  // namespace lathe::tokenizer

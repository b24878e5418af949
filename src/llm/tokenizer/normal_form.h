// SPDX-License-Identifier: MIT
// Unicode normalisation: NFC, NFD, NFKC and NFKD.
#pragma once

#include "llm/tokenizer/aligned_text.h"
#include "llm/tokenizer/unicode/normal_form.h"

namespace lathe::tokenizer {

// Characters of the result map to their original characters by the reference's rules: a reordered
// mark keeps its original.
void normalise(AlignedText& text, unicode::Form form);

}  // namespace lathe::tokenizer

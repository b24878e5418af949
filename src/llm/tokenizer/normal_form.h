// SPDX-License-Identifier: MIT
// The four normal forms of Unicode.
#pragma once

#include "llm/tokenizer/aligned_text.h"
#include "llm/tokenizer/unicode/normal_form.h"

namespace lathe::tokenizer {

// Each character of the result stands for the original characters it was made from, as the
// reference counts them: marks that change places take along where they came from.
void normalise(AlignedText& text, unicode::Form form);

}  // namespace lathe::tokenizer

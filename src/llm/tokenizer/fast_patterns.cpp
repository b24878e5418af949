// SPDX-License-Identifier: MIT
#include "llm/tokenizer/fast_patterns.h"

namespace lathe::tokenizer {

FastPattern find_fast_pattern(std::string_view) { return nullptr; }

}  // namespace lathe::tokenizer

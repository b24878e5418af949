// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "passes/analysis/token_axis.h"

namespace lathe {

// Adds an input, i64 [n], of the tokens whose logits are requested, and returns its name. Gathers
// them as early as a single value still carries the token axis. `extent`: number of tokens.
std::string gather_before_head(Program& program, Value* logits, const TokenAxes& flow,
                               const Dim& extent);

}  // namespace lathe

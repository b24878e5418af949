// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "passes/analysis/token_axis.h"

namespace lathe {

// Adds an input, i64 [n], of the rows whose logits are wanted, and gives its name. They are
// gathered before the longest tail in which one value alone has rows. `extent`: how many there are.
std::string gather_before_head(Program& program, Value* logits, const TokenAxes& flow,
                               const Dim& extent);

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Evaluates instructions whose operands are all literals. Results of at most 64 KiB become literals
// at once. If operands or results are larger, the instruction is marked deferred and evaluated when
// the plan is made. Integer tensors whose values are dims become `dims`.
extern const Pass fold_constants;

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Evaluates what depends on literals alone. Small results become literals at once; where operands
// or results are above 64 KiB the instruction is marked deferred and evaluated when the plan is
// made. Integer tensors whose values are dims become `dims`.
extern const Pass fold_constants;

}  // namespace lathe

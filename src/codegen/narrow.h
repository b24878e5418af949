// SPDX-License-Identifier: MIT
// Integers of formulas are 64 bits wide; elements seldom are.
#pragma once

#include "codegen/kernel.h"

namespace lathe::codegen {

// The kernel with i32 in place of i64 and u64 wherever that has the same results: where a value's
// range is known to fit, and where only its low bits are read. The rest stays wide.
KernelDescription narrow(const KernelDescription& kernel);

}  // namespace lathe::codegen

// SPDX-License-Identifier: MIT
// Integers of 64 bits as pairs of i32: machines have no others.
#pragma once

#include <optional>

#include "codegen/kernel.h"

namespace lathe::codegen {

// The kernel with two nodes of type i32, the low and the high half, in place of each of type i64 or
// u64. None for divisions, shifts by what is not constant and conversions from or to floats.
std::optional<KernelDescription> split(const KernelDescription& kernel);

}  // namespace lathe::codegen

// SPDX-License-Identifier: MIT
// KV caches of packed programs in a narrower type.
#pragma once

#include "ir/program.h"

namespace lathe {

// True if attention of f32 over paged caches of f32 is all that reads and appends to states.
bool has_wide_caches(const Program& program);
// The caches of such a program, and the attention over them, in a 16-bit float.
void narrow_caches(Program& program, ElementType to);

}  // namespace lathe

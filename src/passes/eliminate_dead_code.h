// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Removes instructions without users, unreachable modules and unused symbols. Keeps state updates,
// and guards of removed instructions: guards check the caller's data.
extern const Pass eliminate_dead_code;

}  // namespace lathe

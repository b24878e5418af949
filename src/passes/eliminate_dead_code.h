// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Removes instructions without use, modules that nothing runs and symbols that nothing mentions.
// Updates of states stay, and so do the guards of what is removed: they speak of the caller's data.
extern const Pass eliminate_dead_code;

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Merges instructions of a module that compute the same values, literals included. Keeps those that
// read or update a state, are impure, have bodies or define symbols.
extern const Pass eliminate_common_subexpressions;

}  // namespace lathe

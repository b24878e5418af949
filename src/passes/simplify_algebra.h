// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"
#include "ir/rule.h"

namespace lathe {

// Applies bit-exact identities of arithmetic, casts and transposes.
extern const Pass simplify_algebra;
const RuleTable& simplify_algebra_rules();

}  // namespace lathe

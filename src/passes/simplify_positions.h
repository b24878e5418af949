// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Exporters compute masks and position ids by ranges, comparisons and gathers of them. What follows
// from positions alone becomes constants, slices and broadcasts, which need no launch.
extern const Pass simplify_positions;

}  // namespace lathe

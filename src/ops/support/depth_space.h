// SPDX-License-Identifier: MIT
#pragma once

#include "ir/infer.h"

namespace lathe {

// Checks x[n, c, h, w], the mode (DCR or CRD) and the side of the square blocks, which it returns.
int64_t infer_blocks(Infer& c);

}  // namespace lathe

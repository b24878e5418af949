// SPDX-License-Identifier: MIT
#pragma once

#include "ir/infer.h"

namespace lathe {

// Checks x [n, c, h, w], the mode (DCR or CRD) and block_size; returns block_size.
int64_t infer_blocks(Infer& c);

}  // namespace lathe

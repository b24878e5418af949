// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Transposes behind products move before them, where they cancel or become strides; products
// whose first axis a reshape splits become products over several axes.
extern const Pass simplify_transposes;

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/program.h"

namespace lathe {

// Folds the transposes around sequence_conv into it: [batch, channels, tokens] becomes tokens
// first.
void fold_conv_transposes(Module& main);

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/program.h"

namespace lathe {

// Folds the transposes around sequence_conv into it: [batch, channels, tokens] becomes tokens
// first. Returns whether it changed anything.
bool fold_conv_transposes(Module& main);

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/program.h"

namespace lathe {

// sequence_conv between two transpositions, as exporters of [batch, channels, rows] write it, takes
// rows first instead.
void fold_conv_transposes(Module& main);

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/program.h"

namespace lathe {

// sequence_conv between two transpositions, as exporters of [batch, channels, rows] write it, takes
// rows first instead.
void turn_convolutions(Module& main);

}  // namespace lathe

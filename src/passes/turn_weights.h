// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Weights of decoders' products lie along the depth, as matrix-vector kernels read them: those that
// do not are transposed, of which the product reads the transposed view.
extern const Pass turn_weights;

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Batch normalisation with constant statistics becomes a factor and a summand per channel; factors
// and summands behind a convolution with constant weights move into weights and bias.
extern const Pass fold_scales;

}  // namespace lathe

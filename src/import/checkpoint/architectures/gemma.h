// SPDX-License-Identifier: MIT
// What all generations of Gemma share.
#pragma once

#include "import/checkpoint/architectures.h"

namespace lathe::checkpoint {

void adapt_every_gemma(const Config& config, DecoderStyle& style);

}  // namespace lathe::checkpoint

// SPDX-License-Identifier: MIT
// How the decoder holds a checkpoint's tensors, for people.
#pragma once

#include <string>

#include "import/checkpoint/weights.h"

namespace lathe::checkpoint {

// "f32", "4-bit codes, f16 scales and minimums per 32"
std::string held_as(const StoredTensor& stored);

}  // namespace lathe::checkpoint

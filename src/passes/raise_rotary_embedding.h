// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Recognises RoPE written out as x · cos + concat(-x[half:], x[:half]) · sin. For targets with a
// kernel of rotary_embedding.
extern const Pass raise_rotary_embedding;

}  // namespace lathe

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"

namespace lathe {

// Recognises attention without a KV cache that an exporter wrote out: scores of q and k, factors,
// an additive mask, softmax, weighted sum of v. Operands are [batch, heads, positions, size].
extern const Pass raise_attention;

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Pools the states of a text's tokens.
#pragma once

#include <cstdint>

#include "llm/model/sentence_config.h"

namespace lathe::llm {

// Writes `size` elements to `pooled`. `states`: [tokens, size], of which the first `skipped`, those
// of a prompt, are not pooled, but for CLS, and count in the weights. Zeros without tokens.
void pool_tokens(Pooling pooling, const float* states, int64_t tokens, int64_t skipped,
                 int64_t size, float* pooled);
// Scales to length 1; a vector shorter than 1e-12 stays near 0.
void normalise(float* values, int64_t size);

}  // namespace lathe::llm

// SPDX-License-Identifier: MIT
#pragma once

#include "ir/pass.h"
#include "passes/decoder/pack_sequences.h"

namespace lathe {

// Rewrites a program with paged KV caches to one with contiguous caches [batch, heads, tokens,
// size]: tokens [tokens] become [batch, tokens], paged_attention becomes group_query_attention.
// Changes nothing if the caches have other readers; throws if an instruction does not support the
// new axis.
Pass simplify_paged_caches(const DecoderInterface& interface);

}  // namespace lathe

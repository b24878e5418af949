// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "passes/decoder/pack_sequences.h"

namespace lathe {

// Rewrites a program with paged KV caches to one with contiguous caches [batch, heads, tokens,
// size]: tokens [tokens] become [batch, tokens], paged_attention becomes group_query_attention.
// Null if the caches have other readers, or an instruction does not support the new axis.
std::unique_ptr<Program> simplify_paged_caches(const Program& program,
                                               const DecoderInterface& interface);

}  // namespace lathe

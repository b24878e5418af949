// SPDX-License-Identifier: MIT
// Each token's keys and values are appended to its sequence's KV caches [pages, heads, page length,
// size], whose next versions are results 1 and 2. The token attends to the positions up to itself.
// Without keys the query has them behind its columns. `slopes`, one per head, subtract slope times
// the distance of key and query from a score (ALiBi, arXiv:2108.12409). Quantised caches
// (kv_cache_scale.h) have scales. Step tables: support/step_tables.h.
#include "ops/support/sequence_attention.h"
#include "ops/support/gqa.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

constexpr SequenceAttentionOperands kOperands = sequence_attention_operands(true);

}  // namespace

static const Register sequence_attention{{
    .name = "sequence_attention",
    .doc = "Causal attention of packed tokens to paged KV caches, to which it appends them.",
    .operands = sequence_attention_specs(true),
    .attributes = gqa_attributes({{"slopes", Numbers{}}}),
    .updates = {{kOperands.key_cache, 1}, {kOperands.value_cache, 2}},
    .results = 3,
    .infer = [](Infer& c) { infer_sequence_attention(c, kOperands); },
    .eval = [](Evaluation& c) { evaluate_sequence_attention(c, kOperands); },
    .tokens = [](const TokenStep& s) { return sequence_tokens(s, 1); },
}};

}  // namespace lathe

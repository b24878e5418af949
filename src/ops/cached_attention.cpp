// SPDX-License-Identifier: MIT
// sequence_attention without new keys and values. A causal one reads the later version of a cache,
// to which another instruction has appended the same tokens; `lengths` are then the tokens of each
// sequence before this step. Another one attends to all `lengths` positions of caches that were
// written once, from an encoder's output.
#include "ops/support/gqa.h"
#include "ops/support/sequence_attention.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

constexpr SequenceAttentionOperands kOperands = sequence_attention_operands(false);

void infer_cached_attention(Infer& c) {
  c.check(c.boolean("causal") || !c.boolean("do_rotary"), "do_rotary is {}, but causal is {}",
          c.boolean("do_rotary"), c.boolean("causal"));
  infer_sequence_attention(c, kOperands);
}

}  // namespace

static const Register cached_attention{{
    .name = "cached_attention",
    .doc = "Attention of packed tokens to paged KV caches that it leaves as they are.",
    .operands = sequence_attention_specs(false),
    .attributes = gqa_attributes({{"slopes", Numbers{}}, {"causal", Attribute(true)}}),
    .infer = infer_cached_attention,
    .eval = [](Evaluation& c) { evaluate_sequence_attention(c, kOperands); },
    .tokens = [](const TokenStep& s) { return sequence_tokens(s, 1); },
}};

}  // namespace lathe

// SPDX-License-Identifier: MIT
// All that the choice of one sequence's next token depends on, beside its logits.
#pragma once

#include "llm/search/logits_processors.h"

namespace lathe::search {

struct SamplingBlock {
  const SearchOptions* options = nullptr;
  History history{};
  Tokens ends{};          // tokens that end a sequence
  int64_t longest = 0;    // most tokens it may have; 0: no limit
  uint64_t seed = 0;      // draws depend on it,
  uint64_t sequence = 0;  // on this number, and on how many tokens there are
  TokenMask mask{};
};

// InvalidArgument for a block without options, and for a mask of another length or that allows no
// token.
void check_block(const SamplingBlock& block, int64_t vocabulary);

// The next token. Leaves in `logits` [vocabulary], as the model gave them, what it was chosen from:
// rules, mask and, for draws, cut-offs applied, in this order. InvalidArgument if they leave no
// token.
Token choose_next(Logits logits, const SamplingBlock& block);

}  // namespace lathe::search

// SPDX-License-Identifier: MIT
// Inputs of one sequence's sampling step beside its logits.
#pragma once

#include "llm/search/logits_processors.h"

namespace lathe::search {

struct SamplingBlock {
  const SearchOptions* options = nullptr;
  History history{};
  Tokens ends{};          // end tokens
  int64_t longest = 0;    // maximum length; 0: no limit
  uint64_t seed = 0;      // seed of the random stream
  uint64_t sequence = 0;  // number of the sequence; the position is the token count
  TokenMask mask{};
};

// InvalidArgument without options, and for a mask of another length or without tokens.
void check_block(const SamplingBlock& block, int64_t vocabulary);

}  // namespace lathe::search

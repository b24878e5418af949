// SPDX-License-Identifier: MIT
#include "llm/search/sampling_block.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "llm/search/sampler.h"

namespace lathe::search {

void check_block(const SamplingBlock& block, int64_t vocabulary) {
  check(block.options != nullptr, ErrorKind::invalid_argument,
        "sampling one of {} tokens requires options", vocabulary);
  check_mask(block.mask, vocabulary);
}

Token choose_next(Logits logits, const SamplingBlock& block) {
  const SearchOptions& options = *block.options;
  apply_rules(logits, block.history, options, block.ends, block.longest);
  if (!block.mask.empty()) {
    allow_only(logits, block.mask);
    // Otherwise the first of equal logits would win although excluded.
    check(*std::ranges::max_element(logits) > -std::numeric_limits<float>::infinity(),
          ErrorKind::invalid_argument,
          "no token is left after {} tokens: rules exclude all tokens of the mask",
          block.history.tokens.size());
  }
  if (!options.greedy()) apply_cutoffs(logits, options);
  return choose_token(logits, options, block.seed, block.sequence, block.history.tokens.size());
}

}  // namespace lathe::search

// SPDX-License-Identifier: MIT
// The choice of a token from processed logits [vocabulary].
#pragma once

#include <span>
#include <vector>

#include "llm/search/search_options.h"

namespace lathe::search {

// The first of the largest logits.
Token choose_largest(std::span<const float> logits);

// A token with the probability that the softmax gives it; `uniform` in [0, 1) decides, along the
// tokens in ascending order.
Token choose_by(std::span<const float> logits, double uniform);

// The token at `position` of `sequence`: the same alone and in any batch, whatever came before.
Token choose_token(std::span<const float> logits, const SearchOptions& options, uint64_t seed,
                   uint64_t sequence, uint64_t position);

// log softmax in place.
void to_log_probabilities(std::span<float> logits);

struct TokenLogProbability {
  Token token;
  float log_probability;
};
// The likeliest tokens, best first, of logits as the model gave them.
std::vector<TokenLogProbability> top_log_probabilities(std::span<const float> logits, size_t count);

// What a token was chosen from.
struct Choice {
  float log_probability = 0;  // of the token
  std::vector<TokenLogProbability> likeliest;
};
Choice describe_choice(std::span<const float> logits, Token token, size_t count);

}  // namespace lathe::search

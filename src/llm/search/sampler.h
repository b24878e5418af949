// SPDX-License-Identifier: MIT
// Samples a token from processed logits [vocabulary].
#pragma once

#include <span>
#include <vector>

#include "llm/search/search_options.h"

namespace lathe::search {

// The first of the largest logits.
Token choose_largest(std::span<const float> logits);

// Inverse-CDF sample of the softmax: `uniform` in [0, 1) selects along ascending ids.
Token choose_by(std::span<const float> logits, double uniform);

// The token at `position` of `sequence`; independent of batch and earlier calls.
Token choose_token(std::span<const float> logits, const SearchOptions& options, uint64_t seed,
                   uint64_t sequence, uint64_t position);

// log softmax in place.
void to_log_probabilities(std::span<float> logits);

struct TokenLogProbability {
  Token token;
  float log_probability;
};
// Log-probabilities of a sampled token and of the most likely ones.
struct Choice {
  float log_probability = 0;                     // of the sampled token
  std::vector<TokenLogProbability> most_likely;  // best first
};

// Choices of consecutive tokens, in few allocations.
class Choices {
 public:
  Choices() = default;
  explicit Choices(std::span<const Choice> list);
  std::vector<Choice> list() const;
  // Adds a token sampled from unprocessed logits, with the `count` most likely.
  void add(std::span<const float> logits, Token token, size_t count);
  void keep(size_t count);  // drops all but the first `count`
  size_t size() const { return log_probabilities_.size(); }

 private:
  std::vector<float> log_probabilities_;
  std::vector<TokenLogProbability> most_likely_;
  std::vector<size_t> ends_;  // end of each token's part of `most_likely_`
};

}  // namespace lathe::search

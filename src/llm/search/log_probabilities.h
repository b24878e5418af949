// SPDX-License-Identifier: MIT
// Log-probabilities of logits [vocabulary] and of chosen tokens.
#pragma once

#include <span>
#include <vector>

#include "llm/search/search_options.h"

namespace lathe::search {

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
  void add(float log_probability, std::span<const TokenLogProbability> most_likely);
  void keep(size_t count);  // drops all but the first `count`
  size_t size() const { return log_probabilities_.size(); }

 private:
  std::vector<float> log_probabilities_;
  std::vector<TokenLogProbability> most_likely_;
  std::vector<size_t> ends_;  // end of each token's part of `most_likely_`
};

}  // namespace lathe::search

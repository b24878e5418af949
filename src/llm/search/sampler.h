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
// What a token was chosen from.
struct Choice {
  float log_probability = 0;                     // of the token
  std::vector<TokenLogProbability> most_likely;  // best first
};

// Those of one token after another, in few lists.
class Choices {
 public:
  Choices() = default;
  explicit Choices(std::span<const Choice> list);
  std::vector<Choice> list() const;
  // A token chosen from logits as the model gave them; so many of the likeliest are kept.
  void add(std::span<const float> logits, Token token, size_t count);
  void keep(size_t count);  // forgets all but the first
  size_t size() const { return log_probabilities_.size(); }

 private:
  std::vector<float> log_probabilities_;
  std::vector<TokenLogProbability> most_likely_;
  std::vector<size_t> ends_;  // behind each token's in `most_likely_`
};

}  // namespace lathe::search

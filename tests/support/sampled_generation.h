// SPDX-License-Identifier: MIT
// Generation whose tokens tests compare between targets; for programs that link the decoders.
#pragma once

#include <vector>

#include "llm/model/generator.h"

namespace lathe::test {

inline constexpr int64_t kNewTokens = 6;
using TokenLists = std::vector<std::vector<llm::Token>>;

// Samples kNewTokens tokens.
inline search::SearchOptions sampled(int64_t seed) {
  search::SearchOptions options;
  options.do_sample = true;
  options.top_k = 20;
  options.top_p = 0.9;
  options.random_seed = seed;
  options.repetition_penalty = 1.2;
  options.max_new_tokens = options.min_new_tokens = kNewTokens;
  return options;
}

// Generates to the end; the tokens of each prompt's outputs, in order.
inline TokenLists finish(llm::Generator& generator) {
  while (generator.generate_next_token()) {
  }
  TokenLists all;
  for (size_t i = 0; i < generator.prompts(); ++i) {
    for (const llm::Output& output : generator.outputs(i)) all.push_back(output.tokens);
  }
  return all;
}

}  // namespace lathe::test

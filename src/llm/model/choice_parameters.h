// SPDX-License-Identifier: MIT
#pragma once

#include "llm/search/search_options.h"
#include "ops/support/token_choice.h"

namespace lathe::llm {

// The part of search options that does not depend on a sequence's tokens.
inline ChoiceParameters choice_parameters(const search::SearchOptions& options) {
  return {.sample = !options.greedy(),
          .top_k = options.top_k,
          .temperature = options.temperature,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .typical_p = options.typical_p,
          .epsilon_cutoff = options.epsilon_cutoff,
          .eta_cutoff = options.eta_cutoff};
}

}  // namespace lathe::llm

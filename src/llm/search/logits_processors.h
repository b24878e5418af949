// SPDX-License-Identifier: MIT
// The rules of search options, which depend on a sequence's tokens, as changes of its logits
// [vocabulary] before a token is chosen. Excluded tokens become -infinity.
#pragma once

#include <span>
#include <vector>

#include "base/logit_edit.h"
#include "llm/search/search_options.h"

namespace lathe::search {

// The tokens of one sequence so far, prompt and generated.
struct History {
  std::span<const Token> tokens;
  size_t prompt = 0;  // prompt tokens

  std::span<const Token> generated() const { return tokens.subspan(prompt); }
};

using Logits = std::span<float>;
using Tokens = std::span<const Token>;
// Allowed tokens: bit t % 32 of word t / 32 for token t. Empty: all.
using TokenMask = std::span<const uint32_t>;

// InvalidArgument for a mask of another length than the vocabulary, or without tokens.
void check_mask(TokenMask mask, int64_t vocabulary);

// Edits of tokens of the vocabulary, in order, after which all but the forced tokens are excluded.
struct LogitChanges {
  std::vector<LogitEdit> edits{};
  bool forces = false;
  std::vector<Token> forced{};
  void clear() {
    edits.clear();
    forces = false;
  }
};

// Adds the changes of all rules, in order: sequence bias, logit bias, repetition, presence and
// frequency, repeated n-grams, bad words, minimum lengths, forced first and last token, decay,
// suppressed tokens. `ends`: end tokens; `longest`: maximum length, or 0.
void add_rules(const History& history, const SearchOptions& options, Tokens ends, int64_t longest,
               int64_t vocabulary, LogitChanges& changes);
// Whether the rules depend on which tokens there are, not only on how many.
bool depends_on_tokens(const SearchOptions& options);
// Makes these changes.
void apply_rules(Logits logits, const History& history, const SearchOptions& options, Tokens ends,
                 int64_t longest);

}  // namespace lathe::search

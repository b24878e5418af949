// SPDX-License-Identifier: MIT
// Changes logits [vocabulary] in place before a token is sampled; excluded tokens become -infinity.
// Rules depend on the tokens so far, cut-offs on the distribution.
#pragma once

#include <span>

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

// Rules. Divides positive and multiplies negative logits of tokens seen by the penalty (Keskar et
// al. 2019, "CTRL").
void penalise_repetition(Logits logits, Tokens seen, double penalty);
// logit -= presence · (n > 0) + frequency · n, with n occurrences among the generated tokens.
void penalise_presence(Logits logits, Tokens generated, double presence, double frequency);
void ban_repeated_ngrams(Logits logits, Tokens tokens, int64_t size);
// Adds a bias to the last token of `sequence` if the others were generated last.
void add_sequence_bias(Logits logits, Tokens tokens, Tokens sequence, float bias);
void suppress(Logits logits, Tokens tokens);
// Excludes all but these tokens, whose logits become 0.
void force(Logits logits, Tokens tokens);
// Excludes tokens whose bit is 0.
void allow_only(Logits logits, TokenMask mask);
// InvalidArgument for a mask of another length than the vocabulary, or without tokens.
void check_mask(TokenMask mask, int64_t vocabulary);
// logit += |logit| · (factor^steps - 1).
void encourage(Logits logits, Tokens tokens, double factor, int64_t steps);

// Cut-offs. Each keeps the most likely token.
void divide_by_temperature(Logits logits, double temperature);
void keep_top_k(Logits logits, int64_t k);
// The fewest tokens, by falling probability, whose sum reaches p (Holtzman et al. 2020).
void keep_top_p(Logits logits, double p);
void keep_min_p(Logits logits, double p);
// Tokens by rising |surprise - entropy|, up to a sum of `mass` (Meister et al. 2023).
void keep_typical(Logits logits, double mass);
void cut_epsilon(Logits logits, double epsilon);
// Drops probabilities below min(ε, √ε · exp(-entropy)) (Hewitt et al. 2022).
void cut_eta(Logits logits, double epsilon);

// All rules, in order: sequence bias, logit bias, repetition, presence and frequency, repeated
// n-grams, bad words, minimum lengths, forced first and last token, decay, suppressed tokens.
// `ends`: end tokens; `longest`: maximum length, or 0.
void apply_rules(Logits logits, const History& history, const SearchOptions& options, Tokens ends,
                 int64_t longest);
// All cut-offs, in order: temperature, top-k, top-p, min-p, typical, epsilon, eta.
void apply_cutoffs(Logits logits, const SearchOptions& options);

}  // namespace lathe::search

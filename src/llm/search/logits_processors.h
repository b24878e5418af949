// SPDX-License-Identifier: MIT
// What changes logits before a token is chosen. Each takes one row [vocabulary] in place; what must
// not be chosen becomes -infinity. Rules look at the tokens so far, cut-offs at the distribution.
#pragma once

#include <span>

#include "llm/search/search_options.h"

namespace lathe::search {

// The tokens of one sequence so far, prompt and generated.
struct History {
  std::span<const Token> tokens;
  size_t prompt = 0;  // how many of them are the prompt

  std::span<const Token> generated() const { return tokens.subspan(prompt); }
};

using Logits = std::span<float>;
using Tokens = std::span<const Token>;
// Tokens that a grammar allows, a bit each: token t's is bit t % 32 of word t / 32. Empty: all.
using TokenMask = std::span<const uint32_t>;

// Rules. Positive logits of tokens seen are divided by the penalty, negative ones multiplied
// (Keskar et al. 2019, "CTRL").
void penalise_repetition(Logits logits, Tokens seen, double penalty);
// logit -= presence · (n > 0) + frequency · n, n: how often a token was generated.
void penalise_presence(Logits logits, Tokens generated, double presence, double frequency);
void ban_repeated_ngrams(Logits logits, Tokens tokens, int64_t size);
// A bias on the last token of a sequence whose other tokens have just appeared.
void add_sequence_bias(Logits logits, Tokens tokens, Tokens sequence, float bias);
void suppress(Logits logits, Tokens tokens);
// Only these may be chosen; their logits become 0.
void force(Logits logits, Tokens tokens);
// Those without a bit become impossible.
void allow_only(Logits logits, TokenMask mask);
// InvalidArgument for a mask of another length than the vocabulary's, or that allows no token.
void check_mask(TokenMask mask, int64_t vocabulary);
// logit += |logit| · (factor^steps - 1).
void encourage(Logits logits, Tokens tokens, double factor, int64_t steps);

// Cut-offs. Each leaves the likeliest token.
void divide_by_temperature(Logits logits, double temperature);
void keep_top_k(Logits logits, int64_t k);
// The shortest run of tokens, by falling probability, whose sum reaches p (Holtzman et al. 2020).
void keep_top_p(Logits logits, double p);
void keep_min_p(Logits logits, double p);
// By rising |surprise - entropy|, up to a sum of `mass` (Meister et al. 2023).
void keep_typical(Logits logits, double mass);
void cut_epsilon(Logits logits, double epsilon);
// Below min(ε, √ε · exp(-entropy)) (Hewitt et al. 2022).
void cut_eta(Logits logits, double epsilon);

// All of them in this order: sequence bias, logit bias, repetition, presence and frequency,
// repeated n-grams, bad words, minimum lengths, forced first and last token, decay, suppressed
// tokens. `ends` are the tokens that end a sequence; `longest` the most tokens it may have, or 0.
void apply_rules(Logits logits, const History& history, const SearchOptions& options, Tokens ends,
                 int64_t longest);
// Temperature, top-k, top-p, min-p, typical, epsilon, eta.
void apply_cutoffs(Logits logits, const SearchOptions& options);

}  // namespace lathe::search

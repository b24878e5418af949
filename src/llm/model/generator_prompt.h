// SPDX-License-Identifier: MIT
// State of a generator's prompts.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "llm/model/generator.h"

namespace lathe::llm {

// Embeddings and explicit position ids of a sequence's tokens.
struct Generator::Extras {
  std::vector<EmbeddedTokens> embedded{};
  Positions positions{};  // explicit ones

  // Appends the part to the inputs and to `tokens`.
  void add(const PromptPart& part, std::vector<Token>& tokens, const TokenLimits& limits) {
    const auto begin = std::ssize(tokens);
    const int64_t embeddings = part.embeddings.count();
    check(embeddings == 0 || part.tokens.empty(), ErrorKind::invalid_argument,
          "a part of a prompt has {} tokens and {} embeddings, expected one kind",
          part.tokens.size(), embeddings);
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    for (int64_t i = 0; i < embeddings; ++i) tokens.push_back(part.embeddings.token(i));
    if (embeddings > 0) embedded.push_back({begin, part.embeddings});
    const int64_t count = std::ssize(tokens) - begin;
    if (part.positions.empty()) return;
    check(std::ssize(part.positions) == count || std::ssize(part.positions) == 3 * count,
          ErrorKind::invalid_argument,
          "{} tokens have {} position ids, expected one each or [3, {}]", count,
          part.positions.size(), count);
    check_positions(part.positions, count, limits);
    positions.add(begin, count, part.positions);
  }
  // Next position minus token count (M-RoPE delta).
  int64_t position_delta() const {
    return positions.runs().empty() ? 0 : std::max<int64_t>(positions.next(0), 0);
  }
  void keep(size_t length) {
    embedded = cut_embedded(embedded, 0, static_cast<int64_t>(length));
    positions.truncate(static_cast<int64_t>(length));
  }
};

// One continuation of a prompt: a sample, or a live beam.
struct Generator::Branch {
  Sequence sequence;
  std::vector<Token> tokens{};  // tokens that have not run are last
  Extras extras{};              // of `tokens`
  FinishReason reason = FinishReason::none;
  std::optional<TextStream> text{};  // of this chat turn's tokens
  search::Choices choices{};         // of the same tokens; empty without log_probabilities

  // Tokens that have not run.
  std::span<const Token> pending() const {
    return std::span(tokens).subspan(static_cast<size_t>(sequence.length()));
  }
  // Copies another branch, reusing this one's memory.
  void become(const Branch& other) {
    sequence.become(other.sequence);
    tokens = other.tokens;
    extras = other.extras;
    reason = other.reason;
    text = other.text;
    choices = other.choices;
  }
};

struct Generator::Prompt {
  search::SearchOptions options;
  uint64_t seed = 0;
  uint64_t index = 0;
  size_t prompt_tokens = 0;  // tokens before this chat turn's first generated one
  std::vector<Branch> branches;
  std::unique_ptr<search::BeamSearch> beams;
  std::vector<Branch> spare;   // released branches whose memory the next beams reuse
  NamedTensors inputs;         // encoder inputs, until all are set
  std::vector<uint32_t> mask;  // of the next token; empty: all
  // Logits of the last step, for each live branch: those of the generator's step from this number
  // on
  // (-1: none), and a copy where something has read or changed them.
  int64_t logits_at = -1;
  int64_t logits_count = 0;
  mutable std::vector<float> logits;
  // Outputs of the first live branch, one tensor for each chunk.
  std::map<std::string, std::vector<Tensor>> outputs;
  size_t step = 0;       // tokens of the last step, or of the next if fresh
  bool waiting = false;  // no token has been sampled from `logits`
  bool fresh = true;     // has not run since it was added or changed
  bool begun = false;

  bool done() const {
    if (beams != nullptr && beams->done()) return true;
    return std::ranges::all_of(branches,
                               [](const Branch& b) { return b.reason != FinishReason::none; });
  }
};

}  // namespace lathe::llm

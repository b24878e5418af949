// SPDX-License-Identifier: MIT
// What a generator holds of each prompt.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "llm/model/generator.h"

namespace lathe::llm {

// What a sequence's tokens come with.
struct Generator::Extras {
  std::vector<EmbeddedTokens> embedded{};
  Positions positions{};  // that were told

  // Lists the part's rows behind the tokens, too.
  void add(const PromptPart& part, std::vector<Token>& tokens, const TokenLimits& limits) {
    const auto begin = std::ssize(tokens);
    const int64_t embeddings = part.embeddings.count();
    check(embeddings == 0 || part.tokens.empty(), ErrorKind::invalid_argument,
          "a part of a prompt has {} tokens and {} rows of embeddings", part.tokens.size(),
          embeddings);
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    for (int64_t row = 0; row < embeddings; ++row) tokens.push_back(part.embeddings.token(row));
    if (embeddings > 0) embedded.push_back({begin, part.embeddings});
    const int64_t rows = std::ssize(tokens) - begin;
    if (part.positions.empty()) return;
    check(std::ssize(part.positions) == rows || std::ssize(part.positions) == 3 * rows,
          ErrorKind::invalid_argument,
          "{} rows come with {} positions, expected one each or [3, {}]", rows,
          part.positions.size(), rows);
    check_positions(part.positions, rows, limits);
    positions.add(begin, rows, part.positions);
  }
  // How far behind their number rows stand that follow.
  int64_t ahead() const {
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
  std::vector<Token> tokens{};  // those the sequence does not hold yet come last
  Extras extras{};              // of these
  FinishReason reason = FinishReason::none;
  std::optional<TextStream> text{};  // of this turn's tokens
  search::Choices choices{};         // of this turn's tokens, if they are wanted

  // Tokens that have not been run.
  std::span<const Token> pending() const {
    return std::span(tokens).subspan(static_cast<size_t>(sequence.length()));
  }
  // Another's continuation, in the memory at hand.
  void become(const Branch& other) {
    sequence.become(other.sequence);
    tokens = other.tokens;
    extras = other.extras;
    reason = other.reason;
    text = other.text;
    choices = other.choices;
  }
};

struct Generator::Row {
  search::SearchOptions options;
  uint64_t seed = 0;
  uint64_t number = 0;
  size_t prompt = 0;  // tokens before the first generated one of this turn
  std::vector<Branch> branches;
  std::unique_ptr<search::BeamSearch> beams;
  std::vector<Branch> spare;   // beams that hold nothing: the memory of the next ones
  NamedTensors inputs;         // until all are there
  std::vector<uint32_t> mask;  // of the next token; empty: all
  std::vector<float> logits;   // of the last step, for each branch that goes on
  // Of the first branch that goes on, in the parts that were run.
  std::map<std::string, std::vector<Tensor>> outputs;
  bool waiting = false;  // no token was chosen by them yet
  bool fresh = true;     // no step has served it since it was made or given other tokens
  bool begun = false;

  bool done() const {
    if (beams != nullptr && beams->done()) return true;
    return std::ranges::all_of(branches,
                               [](const Branch& b) { return b.reason != FinishReason::none; });
  }
};

}  // namespace lathe::llm

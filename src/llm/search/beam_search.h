// SPDX-License-Identifier: MIT
// Beam search over one prompt. A step takes log-probabilities of the live beams and returns which
// beams continue; the caller forks and drops KV caches accordingly. A hypothesis scores its sum of
// log-probabilities / length^length_penalty. An end token among the num_beams best candidates
// finishes a hypothesis; others are dropped.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "llm/search/search_options.h"

namespace lathe::search {

struct Hypothesis {
  std::vector<Token> tokens;  // generated, with the end token
  float score;
};

class BeamSearch {
 public:
  // `longest`: maximum length of a sequence with the prompt; greater than `prompt`.
  BeamSearch(const SearchOptions& options, std::vector<Token> ends, int64_t prompt,
             int64_t longest);

  // Live beams: 1 before the first step, then num_beams.
  size_t beams() const { return live_.size(); }
  std::vector<Token> tokens(size_t beam) const { return path(live_[beam].node); }
  bool done() const { return done_; }

  // The beam that continues, and its next token.
  struct Next {
    size_t parent;
    Token token;
  };
  // Whether a token other than an end token ends a beam, as by a stop string.
  using EndTest = std::function<bool(size_t parent, Token token)>;
  // Takes log-probabilities of each live beam [vocabulary], with rules applied. Returns num_beams
  // continuations, or fewer if EndTest ended some; unspecified once done. Valid until the next
  // step.
  std::span<const Next> step(std::span<const std::span<const float>> log_probabilities,
                             const EndTest& ends = nullptr);

  // The best num_return_sequences hypotheses, best first. Requires done().
  std::vector<Hypothesis> finish() const;

 private:
  struct Node {
    int64_t parent;  // -1: the prompt
    Token token;
  };
  struct Beam {
    int64_t node;
    float score;  // sum of log-probabilities
  };
  struct Candidate {
    size_t parent;
    Token token;
    float score;
  };
  void find_candidates(std::span<const std::span<const float>> log_probabilities);
  std::vector<Token> path(int64_t node) const;
  double length(int64_t added, bool ended) const;
  void finish_beam(const Candidate& candidate, bool ended);
  void update_done();

  SearchOptions options_;
  std::vector<Token> ends_;
  int64_t prompt_;
  int64_t longest_;
  int64_t added_ = 0;  // tokens generated in every live beam
  std::vector<Node> nodes_;
  std::vector<Beam> live_;
  std::vector<Beam> finished_;  // best first, at most num_beams; scores include the length penalty
  bool done_ = false;
  // Reused by consecutive steps.
  std::vector<Candidate> candidates_;
  std::vector<Beam> grown_;
  std::vector<Next> next_;
};

}  // namespace lathe::search

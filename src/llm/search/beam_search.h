// SPDX-License-Identifier: MIT
// Beam search over one prompt. Each step takes the log-probabilities of the live beams and says
// which beams go on from which; the caller forks and drops caches accordingly. A hypothesis counts
// as its sum of log-probabilities divided by its length to the power of the length penalty; ends
// among the num_beams best continuations finish, ends behind them are dropped.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "llm/search/search_options.h"

namespace lathe::search {

struct Hypothesis {
  std::vector<Token> tokens;  // generated, the end token included
  float score;
};

class BeamSearch {
 public:
  // `longest`: most tokens of a sequence, prompt included; more than `prompt`.
  BeamSearch(const SearchOptions& options, std::vector<Token> ends, int64_t prompt,
             int64_t longest);

  // Live beams: one before the first step, then num_beams.
  size_t beams() const { return live_.size(); }
  std::vector<Token> tokens(size_t beam) const { return path(live_[beam].node); }
  bool done() const { return done_; }

  // The beam that continues, and by which token.
  struct Next {
    size_t parent;
    Token token;
  };
  // Whether a beam ends by this token although it is no end token: its text has a stop string.
  using EndTest = std::function<bool(size_t parent, Token token)>;
  // Log-probabilities of each live beam [vocabulary], rules applied; all of one length. Returns
  // num_beams continuations, fewer where the test ended others; meaningless once done. Valid until
  // the next step.
  std::span<const Next> step(std::span<const std::span<const float>> log_probabilities,
                             const EndTest& ends = nullptr);

  // The best `num_return_sequences` hypotheses, best first. Once done.
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
  std::vector<Beam> finished_;  // best first, at most num_beams; score with length penalty
  bool done_ = false;
  // Of one step after another, so that they are made once.
  std::vector<Candidate> candidates_;
  std::vector<Beam> grown_;
  std::vector<Next> next_;
};

}  // namespace lathe::search

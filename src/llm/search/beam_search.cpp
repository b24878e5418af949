// SPDX-License-Identifier: MIT
#include "llm/search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lathe::search {

BeamSearch::BeamSearch(const SearchOptions& options, std::vector<Token> ends, int64_t prompt,
                       int64_t longest)
    : options_(options), ends_(std::move(ends)), prompt_(prompt), longest_(longest) {
  check(longest > prompt, ErrorKind::invalid_argument,
        "a prompt of {} tokens leaves no room below a maximum length of {}", prompt, longest);
  live_.push_back({-1, 0});
}

std::vector<Token> BeamSearch::path(int64_t node) const {
  std::vector<Token> tokens;
  for (; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
    tokens.push_back(nodes_[static_cast<size_t>(node)].token);
  }
  std::ranges::reverse(tokens);
  return tokens;
}

// ONNX Runtime GenAI counts prompt and new tokens without the end token; Transformers counts new
// tokens with it.
double BeamSearch::length(int64_t added, bool ended) const {
  const int64_t count =
      options_.length_penalty_counts_prompt ? prompt_ + added - (ended ? 1 : 0) : added;
  return std::pow(static_cast<double>(std::max<int64_t>(count, 1)), options_.length_penalty);
}

// Finds enough candidates that num_beams remain if all others end. Best first; ties by beam, then
// token.
void BeamSearch::find_candidates(std::span<const std::span<const float>> log_probabilities) {
  const size_t count =
      std::max<size_t>(2, 1 + ends_.size()) * static_cast<size_t>(options_.num_beams);
  std::vector<Candidate>& best = candidates_;
  best.clear();
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  };
  // A heap whose front is the worst candidate kept.
  for (size_t beam = 0; beam < live_.size(); ++beam) {
    const std::span<const float> own = log_probabilities[beam];
    for (size_t token = 0; token < own.size(); ++token) {
      const float score = live_[beam].score + own[token];
      const Candidate candidate{
          beam, static_cast<Token>(token),
          std::isnan(score) ? -std::numeric_limits<float>::infinity() : score};
      if (best.size() == count && !better(candidate, best.front())) continue;
      if (best.size() == count) {
        std::ranges::pop_heap(best, better);
        best.pop_back();
      }
      best.push_back(candidate);
      std::ranges::push_heap(best, better);
    }
  }
  std::ranges::sort(best, better);
}

void BeamSearch::finish_beam(const Candidate& candidate, bool ended) {
  const auto score = static_cast<float>(candidate.score / length(added_ + 1, ended));
  const auto most = static_cast<size_t>(options_.num_beams);
  if (finished_.size() == most && score <= finished_.back().score) return;
  nodes_.push_back({live_[candidate.parent].node, candidate.token});
  const auto place =
      std::ranges::find_if(finished_, [&](const Beam& b) { return score > b.score; });
  finished_.insert(place, {static_cast<int64_t>(nodes_.size()) - 1, score});
  if (finished_.size() > most) finished_.pop_back();
}

std::span<const BeamSearch::Next> BeamSearch::step(
    std::span<const std::span<const float>> log_probabilities, const EndTest& ends) {
  check(log_probabilities.size() == live_.size(), ErrorKind::internal,
        "got log-probabilities of {} beams, expected {}", log_probabilities.size(), live_.size());
  const auto beams = static_cast<size_t>(options_.num_beams);
  find_candidates(log_probabilities);
  const bool last = prompt_ + added_ + 1 >= longest_;
  grown_.clear();
  next_.clear();
  for (size_t rank = 0; rank < candidates_.size(); ++rank) {
    const Candidate& candidate = candidates_[rank];
    const bool ended = std::ranges::find(ends_, candidate.token) != ends_.end() ||
                       (ends && ends(candidate.parent, candidate.token));
    if ((ended || last) && rank < beams) finish_beam(candidate, ended);
    if (ended || grown_.size() == beams) continue;
    nodes_.push_back({live_[candidate.parent].node, candidate.token});
    grown_.push_back({static_cast<int64_t>(nodes_.size()) - 1, candidate.score});
    next_.push_back({candidate.parent, candidate.token});
  }
  check(grown_.size() == beams || ends, ErrorKind::invalid_argument,
        "{} of {} beams have a continuation: the vocabulary is too small or too many tokens are "
        "excluded",
        grown_.size(), beams);
  std::swap(live_, grown_);
  ++added_;
  done_ = last || live_.empty();
  update_done();
  return next_;
}

void BeamSearch::update_done() {
  if (done_ || finished_.size() < static_cast<size_t>(options_.num_beams)) return;
  if (options_.early_stopping == EarlyStopping::yes) {
    done_ = true;
    return;
  }
  // Best score that a live beam can still reach: now, or at the maximum length if longer is better.
  const bool never = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
  const int64_t added = never ? longest_ - prompt_ : added_;
  const double best = live_.front().score / length(added, false);
  done_ = best <= finished_.back().score;
}

std::vector<Hypothesis> BeamSearch::finish() const {
  std::vector<Hypothesis> best;
  for (const Beam& beam : finished_) {
    if (best.size() == static_cast<size_t>(options_.num_return_sequences)) break;
    best.push_back({path(beam.node), beam.score});
  }
  return best;
}

}  // namespace lathe::search

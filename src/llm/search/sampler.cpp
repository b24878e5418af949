// SPDX-License-Identifier: MIT
#include "llm/search/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "base/thread_scratch.h"

namespace lathe::search {
namespace {

double log_sum(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

// The most likely tokens, best first.
void add_most_likely(std::span<const float> logits, size_t count,
                     std::vector<TokenLogProbability>& top) {
  const ScratchArray<Token> order(std::ssize(logits));
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, order.size());
  const auto logit = [&](Token token) { return logits[static_cast<size_t>(token)]; };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](Token a, Token b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  const double total = log_sum(logits);
  for (const Token token : std::span(order.begin(), count)) {
    top.push_back({token, static_cast<float>(logit(token) - total)});
  }
}

}  // namespace

Token choose_largest(std::span<const float> logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

Token choose_by(std::span<const float> logits, double uniform) {
  const double largest = *std::ranges::max_element(logits);
  check(std::isfinite(largest), ErrorKind::invalid_argument,
        "cannot sample a token: the largest of {} logits is {}", logits.size(), largest);
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x) - largest);
  const double goal = uniform * total;
  double sum = 0;
  Token last = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double share = std::exp(static_cast<double>(logits[i]) - largest);
    if (share == 0) continue;
    sum += share;
    last = static_cast<Token>(i);
    if (sum > goal) return last;
  }
  return last;  // rounding left the sum below `goal`
}

Token choose_token(std::span<const float> logits, const SearchOptions& options, uint64_t seed,
                   uint64_t sequence, uint64_t position) {
  if (options.greedy()) return choose_largest(logits);
  return choose_by(logits, philox_uniform(seed, sequence, position));
}

void to_log_probabilities(std::span<float> logits) {
  const double total = log_sum(logits);
  for (float& x : logits) x = static_cast<float>(x - total);
}

void Choices::add(std::span<const float> logits, Token token, size_t count) {
  const double logit = logits[static_cast<size_t>(token)];
  log_probabilities_.push_back(static_cast<float>(logit - log_sum(logits)));
  add_most_likely(logits, count, most_likely_);
  ends_.push_back(most_likely_.size());
}

void Choices::keep(size_t count) {
  if (count >= size()) return;
  log_probabilities_.resize(count);
  ends_.resize(count);
  most_likely_.resize(count == 0 ? 0 : ends_.back());
}

Choices::Choices(std::span<const Choice> list) {
  for (const Choice& choice : list) {
    log_probabilities_.push_back(choice.log_probability);
    most_likely_.insert(most_likely_.end(), choice.most_likely.begin(), choice.most_likely.end());
    ends_.push_back(most_likely_.size());
  }
}

std::vector<Choice> Choices::list() const {
  std::vector<Choice> list;
  auto begin = most_likely_.begin();
  for (size_t i = 0; i < size(); ++i) {
    const auto end = most_likely_.begin() + static_cast<std::ptrdiff_t>(ends_[i]);
    list.push_back({log_probabilities_[i], {begin, end}});
    begin = end;
  }
  return list;
}

}  // namespace lathe::search

// SPDX-License-Identifier: MIT
#include "llm/search/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "llm/search/philox.h"

namespace lathe::search {
namespace {

double log_sum(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

}  // namespace

Token choose_largest(std::span<const float> logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

Token choose_by(std::span<const float> logits, double uniform) {
  const double largest = *std::ranges::max_element(logits);
  check(std::isfinite(largest), ErrorKind::invalid_argument,
        "no token can be chosen: the largest of {} logits is {}", logits.size(), largest);
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
  return last;  // the sum fell short of `goal` by a rounding
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

std::vector<TokenLogProbability> top_log_probabilities(std::span<const float> logits,
                                                       size_t count) {
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  count = std::min(count, order.size());
  const auto logit = [&](Token token) { return logits[static_cast<size_t>(token)]; };
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](Token a, Token b) { return logit(a) > logit(b) || (logit(a) == logit(b) && a < b); });
  const double total = log_sum(logits);
  std::vector<TokenLogProbability> top;
  for (size_t i = 0; i < count; ++i) {
    top.push_back({order[i], static_cast<float>(logit(order[i]) - total)});
  }
  return top;
}

Choice describe_choice(std::span<const float> logits, Token token, size_t count) {
  const double logit = logits[static_cast<size_t>(token)];
  return {static_cast<float>(logit - log_sum(logits)), top_log_probabilities(logits, count)};
}

}  // namespace lathe::search

// SPDX-License-Identifier: MIT
#include "llm/search/log_probabilities.h"

#include <algorithm>
#include <cmath>

namespace lathe::search {
namespace {

double log_sum(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

}  // namespace

void to_log_probabilities(std::span<float> logits) {
  const double total = log_sum(logits);
  for (float& x : logits) x = static_cast<float>(x - total);
}

void Choices::add(float log_probability, std::span<const TokenLogProbability> most_likely) {
  log_probabilities_.push_back(log_probability);
  most_likely_.insert(most_likely_.end(), most_likely.begin(), most_likely.end());
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

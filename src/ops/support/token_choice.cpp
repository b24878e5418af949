// SPDX-License-Identifier: MIT
#include "ops/support/token_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/thread_scratch.h"

namespace lathe {
namespace {

using Logits = std::span<float>;
constexpr float kNever = -std::numeric_limits<float>::infinity();

double entropy(Logits logits, double total) {
  double sum = 0;
  for (const float x : logits) {
    const double log_p = x - total;
    if (x != kNever) sum -= std::exp(log_p) * log_p;
  }
  return sum;
}

// Drops tokens less probable than `least`, but keeps the most likely.
void cut_below(Logits logits, double total, double least) {
  const float largest = *std::ranges::max_element(logits);
  for (float& x : logits) {
    if (std::exp(x - total) < least && x < largest) x = kNever;
  }
}

// Visits tokens by falling `key`, the lower id first among equals, until `keep` returns false.
// Drops the rest. The first token always stays.
template <class Key, class Keep>
void keep_sorted(Logits logits, const Key& key, const Keep& keep) {
  const ScratchArray<uint32_t> order(std::ssize(logits));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](uint32_t a, uint32_t b) {
    return key(a) > key(b) || (key(a) == key(b) && a < b);
  };
  // Sorts in growing parts: usually few tokens stay.
  size_t sorted = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == sorted) {
      sorted = std::min(order.size(), std::max<size_t>(64, 4 * sorted));
      std::partial_sort(order.begin() + i, order.begin() + sorted, order.end(), before);
    }
    if (i > 0 && !keep(order[i])) {
      for (size_t rest = i; rest < order.size(); ++rest) logits[order[rest]] = kNever;
      return;
    }
    if (i == 0) keep(order[0]);
  }
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

void divide_by_temperature(Logits logits, double temperature) {
  for (float& x : logits) {
    x /= static_cast<float>(temperature);
    if (std::isnan(x)) x = kNever;  // 0 / 0
  }
}

void keep_top_k(Logits logits, int64_t k) {
  if (k <= 0 || static_cast<size_t>(k) >= logits.size()) return;
  const ScratchArray<float> sorted(std::ssize(logits));
  std::ranges::copy(logits, sorted.begin());
  std::nth_element(sorted.begin(), sorted.begin() + k - 1, sorted.end(), std::greater<>());
  const float least = sorted[static_cast<size_t>(k - 1)];
  for (float& x : logits) {
    if (x < least) x = kNever;
  }
}

void keep_top_p(Logits logits, double p) {
  if (p <= 0 || p >= 1) return;
  const double total = log_sum_exp(logits);
  double sum = 0;
  keep_sorted(
      logits, [&](uint32_t i) { return logits[i]; },
      [&](uint32_t i) {
        if (sum >= p) return false;
        sum += std::exp(logits[i] - total);
        return true;
      });
}

void keep_min_p(Logits logits, double p) {
  const float largest = *std::ranges::max_element(logits);
  for (float& x : logits) {
    if (std::exp(static_cast<double>(x) - largest) < p) x = kNever;
  }
}

void keep_typical(Logits logits, double mass) {
  if (mass >= 1) return;
  const double total = log_sum_exp(logits);
  const double usual = entropy(logits, total);
  const ScratchArray<double> distance(std::ssize(logits));
  for (size_t i = 0; i < logits.size(); ++i) {
    distance[i] = logits[i] == kNever ? std::numeric_limits<double>::infinity()
                                      : std::abs(total - logits[i] - usual);
  }
  double sum = 0;
  keep_sorted(
      logits, [&](uint32_t i) { return -distance[i]; },
      [&](uint32_t i) {
        if (sum >= mass) return false;
        sum += std::exp(logits[i] - total);
        return true;
      });
}

void cut_epsilon(Logits logits, double epsilon) { cut_below(logits, log_sum_exp(logits), epsilon); }

void cut_eta(Logits logits, double epsilon) {
  const double total = log_sum_exp(logits);
  cut_below(logits, total,
            std::min(epsilon, std::sqrt(epsilon) * std::exp(-entropy(logits, total))));
}

void apply_cutoffs(Logits logits, const ChoiceParameters& p) {
  if (p.temperature != 1) divide_by_temperature(logits, p.temperature);
  keep_top_k(logits, p.top_k);
  apply_late_cutoffs(logits, p);
}

void apply_late_cutoffs(Logits logits, const ChoiceParameters& p) {
  // An infinite logit has no probability to sort by.
  if (!std::isfinite(*std::ranges::max_element(logits))) return;
  keep_top_p(logits, p.top_p);
  if (p.min_p > 0) keep_min_p(logits, p.min_p);
  keep_typical(logits, p.typical_p);
  if (p.epsilon_cutoff > 0) cut_epsilon(logits, p.epsilon_cutoff);
  if (p.eta_cutoff > 0) cut_eta(logits, p.eta_cutoff);
}

int32_t choose_largest(std::span<const float> logits) {
  const auto largest = std::ranges::max_element(logits);
  return *largest == kNever ? -1 : static_cast<int32_t>(largest - logits.begin());
}

int32_t choose_by(std::span<const float> logits, double uniform) {
  const double largest = *std::ranges::max_element(logits);
  if (!std::isfinite(largest)) return -1;
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x) - largest);
  const double goal = uniform * total;
  double sum = 0;
  int32_t last = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double share = std::exp(static_cast<double>(logits[i]) - largest);
    if (share == 0) continue;
    sum += share;
    last = static_cast<int32_t>(i);
    if (sum > goal) return last;
  }
  return last;  // rounding left the sum below `goal`
}

}  // namespace lathe

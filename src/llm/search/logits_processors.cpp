// SPDX-License-Identifier: MIT
#include "llm/search/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/thread_scratch.h"

namespace lathe::search {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float& at(Logits logits, Token token) { return logits[static_cast<size_t>(token)]; }
bool inside(Logits logits, Token token) {
  return token >= 0 && static_cast<size_t>(token) < logits.size();
}

// log Σ exp(x).
double log_sum(Logits logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

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

namespace {

// Visits each distinct token once, with its count.
template <class Visit>
void for_each_count(Logits logits, Tokens tokens, const Visit& visit) {
  // Uninitialised: only entries of `tokens` are read or written.
  const ScratchArray<uint32_t> counts(std::ssize(logits));
  const auto count = [&](Token token) -> uint32_t& { return counts[static_cast<size_t>(token)]; };
  for (const Token token : tokens) {
    if (inside(logits, token)) count(token) = 0;
  }
  for (const Token token : tokens) {
    if (inside(logits, token)) ++count(token);
  }
  for (const Token token : tokens) {
    if (!inside(logits, token) || count(token) == 0) continue;
    visit(token, std::exchange(count(token), 0));
  }
}

}  // namespace

void penalise_repetition(Logits logits, Tokens seen, double penalty) {
  for_each_count(logits, seen, [&](Token token, uint32_t) {
    float& x = at(logits, token);
    x = x < 0 ? x * static_cast<float>(penalty) : x / static_cast<float>(penalty);
  });
}

void penalise_presence(Logits logits, Tokens generated, double presence, double frequency) {
  for_each_count(logits, generated, [&](Token token, uint32_t count) {
    at(logits, token) -= static_cast<float>(presence + frequency * static_cast<double>(count));
  });
}

void ban_repeated_ngrams(Logits logits, Tokens tokens, int64_t size) {
  const auto n = static_cast<size_t>(size);
  if (size <= 0 || tokens.size() + 1 < n) return;
  const Tokens prefix = tokens.last(n - 1);
  for (size_t i = 0; i + n <= tokens.size(); ++i) {
    const Token next = tokens[i + n - 1];
    if (std::ranges::equal(tokens.subspan(i, n - 1), prefix) && inside(logits, next)) {
      at(logits, next) = kNever;
    }
  }
}

void add_sequence_bias(Logits logits, Tokens tokens, Tokens sequence, float bias) {
  const Tokens prefix = sequence.first(sequence.size() - 1);
  if (prefix.size() > tokens.size() || !inside(logits, sequence.back())) return;
  if (std::ranges::equal(prefix, tokens.last(prefix.size()))) at(logits, sequence.back()) += bias;
}

void suppress(Logits logits, Tokens tokens) {
  for (const Token token : tokens) {
    if (inside(logits, token)) at(logits, token) = kNever;
  }
}

void force(Logits logits, Tokens tokens) {
  std::ranges::fill(logits, kNever);
  for (const Token token : tokens) {
    if (inside(logits, token)) at(logits, token) = 0;
  }
}

void allow_only(Logits logits, TokenMask mask) {
  for (size_t token = 0; token < logits.size(); ++token) {
    if ((mask[token / 32] >> token % 32 & 1) == 0) logits[token] = kNever;
  }
}

void check_mask(TokenMask mask, int64_t vocabulary) {
  if (mask.empty()) return;
  const int64_t words = (vocabulary + 31) / 32;
  check(std::ssize(mask) == words, ErrorKind::invalid_argument,
        "a token mask has {} words, expected {} for a vocabulary of {}", mask.size(), words,
        vocabulary);
  const int64_t rest = vocabulary % 32;
  const uint32_t last = rest == 0 ? mask.back() : mask.back() & ((uint32_t{1} << rest) - 1);
  const bool any = last != 0 || std::ranges::any_of(mask.first(mask.size() - 1),
                                                    [](uint32_t word) { return word != 0; });
  check(any, ErrorKind::invalid_argument, "a token mask has none of {} tokens", vocabulary);
}

void encourage(Logits logits, Tokens tokens, double factor, int64_t steps) {
  for (const Token token : tokens) {
    if (!inside(logits, token)) continue;
    float& x = at(logits, token);
    const double gain = std::pow(factor, static_cast<double>(steps)) - 1;
    if (x != kNever) x += static_cast<float>(std::abs(x) * gain);
  }
}

void divide_by_temperature(Logits logits, double temperature) {
  for (float& x : logits) x /= static_cast<float>(temperature);
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
  const double total = log_sum(logits);
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
  const double total = log_sum(logits);
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

void cut_epsilon(Logits logits, double epsilon) { cut_below(logits, log_sum(logits), epsilon); }

void cut_eta(Logits logits, double epsilon) {
  const double total = log_sum(logits);
  cut_below(logits, total,
            std::min(epsilon, std::sqrt(epsilon) * std::exp(-entropy(logits, total))));
}

void apply_rules(Logits logits, const History& history, const SearchOptions& o, Tokens ends,
                 int64_t longest) {
  const auto length = static_cast<int64_t>(history.tokens.size());
  const auto added = static_cast<int64_t>(history.generated().size());
  for (const SequenceBias& entry : o.sequence_bias) {
    add_sequence_bias(logits, history.tokens, entry.tokens, entry.bias);
  }
  for (const auto& [token, bias] : o.logit_bias) {
    if (inside(logits, token)) at(logits, token) += bias;
  }
  if (o.repetition_penalty != 1) {
    penalise_repetition(logits, history.tokens, o.repetition_penalty);
  }
  if (o.presence_penalty != 0 || o.frequency_penalty != 0) {
    penalise_presence(logits, history.generated(), o.presence_penalty, o.frequency_penalty);
  }
  ban_repeated_ngrams(logits, history.tokens, o.no_repeat_ngram_size);
  for (const auto& word : o.bad_words_ids) {
    // Skips single end tokens, which are not bad words.
    if (word.size() == 1 && std::ranges::find(ends, word[0]) != ends.end()) continue;
    add_sequence_bias(logits, history.tokens, word, kNever);
  }
  if (length < o.min_length || added < o.min_new_tokens) suppress(logits, ends);
  if (o.forced_bos_token_id && length == 1) force(logits, {&*o.forced_bos_token_id, 1});
  if (!o.forced_eos_token_id.empty() && longest > 0 && length == longest - 1) {
    force(logits, o.forced_eos_token_id);
  }
  if (const auto& decay = o.exponential_decay_length_penalty; decay && added > decay->first) {
    encourage(logits, ends, decay->second, added - decay->first);
  }
  suppress(logits, o.suppress_tokens);
  if (added == 0) suppress(logits, o.begin_suppress_tokens);
}

void apply_cutoffs(Logits logits, const SearchOptions& o) {
  if (o.temperature != 1) divide_by_temperature(logits, o.temperature);
  keep_top_k(logits, o.top_k);
  keep_top_p(logits, o.top_p);
  if (o.min_p > 0) keep_min_p(logits, o.min_p);
  keep_typical(logits, o.typical_p);
  if (o.epsilon_cutoff > 0) cut_epsilon(logits, o.epsilon_cutoff);
  if (o.eta_cutoff > 0) cut_eta(logits, o.eta_cutoff);
}

}  // namespace lathe::search

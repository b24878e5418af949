// SPDX-License-Identifier: MIT
#include "llm/search/logits_processors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/thread_scratch.h"

namespace lathe::search {
namespace {

using Kind = LogitEdit::Kind;
constexpr float kNever = -std::numeric_limits<float>::infinity();

// Collects the edits of rules in order.
class Rules {
 public:
  Rules(int64_t vocabulary, std::vector<LogitEdit>& edits)
      : vocabulary_(vocabulary), edits_(edits) {}

  void edit(Token token, Kind kind, double value) {
    if (token >= 0 && token < vocabulary_) edits_.push_back({token, kind, value});
  }
  void suppress(Tokens tokens) {
    for (const Token token : tokens) edit(token, Kind::set, kNever);
  }

  // Divides positive and multiplies negative logits of tokens seen (Keskar et al. 2019, "CTRL").
  void penalise_repetition(Tokens seen, double penalty) {
    for_each_count(seen, [&](Token token, uint32_t) { edit(token, Kind::scale, penalty); });
  }
  // logit -= presence · (n > 0) + frequency · n, with n occurrences among the generated tokens.
  void penalise_presence(Tokens generated, double presence, double frequency) {
    for_each_count(generated, [&](Token token, uint32_t count) {
      edit(token, Kind::add, -(presence + frequency * static_cast<double>(count)));
    });
  }
  void ban_repeated_ngrams(Tokens tokens, int64_t size) {
    const auto n = static_cast<size_t>(size);
    if (size <= 0 || tokens.size() + 1 < n) return;
    const Tokens prefix = tokens.last(n - 1);
    for (size_t i = 0; i + n <= tokens.size(); ++i) {
      if (!std::ranges::equal(tokens.subspan(i, n - 1), prefix)) continue;
      edit(tokens[i + n - 1], Kind::set, kNever);
    }
  }
  // Biases the last token of `sequence` if the others were generated last.
  void add_sequence_bias(Tokens tokens, Tokens sequence, float bias) {
    const Tokens prefix = sequence.first(sequence.size() - 1);
    if (prefix.size() > tokens.size()) return;
    if (std::ranges::equal(prefix, tokens.last(prefix.size()))) {
      edit(sequence.back(), Kind::add, bias);
    }
  }
  // logit += |logit| · (factor^steps - 1).
  void encourage(Tokens tokens, double factor, int64_t steps) {
    const double gain = std::pow(factor, static_cast<double>(steps)) - 1;
    for (const Token token : tokens) edit(token, Kind::grow, gain);
  }

 private:
  // Visits each distinct token once, with its count.
  template <class Visit>
  void for_each_count(Tokens tokens, const Visit& visit) const {
    // Uninitialised: only entries of `tokens` are read or written.
    const ScratchArray<uint32_t> counts(vocabulary_);
    const auto inside = [&](Token token) { return token >= 0 && token < vocabulary_; };
    const auto count = [&](Token token) -> uint32_t& { return counts[static_cast<size_t>(token)]; };
    for (const Token token : tokens) {
      if (inside(token)) count(token) = 0;
    }
    for (const Token token : tokens) {
      if (inside(token)) ++count(token);
    }
    for (const Token token : tokens) {
      if (!inside(token) || count(token) == 0) continue;
      visit(token, std::exchange(count(token), 0));
    }
  }

  int64_t vocabulary_;
  std::vector<LogitEdit>& edits_;
};

}  // namespace

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

void add_rules(const History& history, const SearchOptions& o, Tokens ends, int64_t longest,
               int64_t vocabulary, LogitChanges& changes) {
  const auto length = static_cast<int64_t>(history.tokens.size());
  const auto added = static_cast<int64_t>(history.generated().size());
  Rules rules(vocabulary, changes.edits);
  const auto force = [&](Tokens tokens) {
    changes.forces = true;
    changes.forced.assign(tokens.begin(), tokens.end());
    for (const Token token : tokens) rules.edit(token, Kind::set, 0);
  };
  for (const SequenceBias& entry : o.sequence_bias) {
    rules.add_sequence_bias(history.tokens, entry.tokens, entry.bias);
  }
  for (const auto& [token, bias] : o.logit_bias) rules.edit(token, Kind::add, bias);
  if (o.repetition_penalty != 1) rules.penalise_repetition(history.tokens, o.repetition_penalty);
  if (o.presence_penalty != 0 || o.frequency_penalty != 0) {
    rules.penalise_presence(history.generated(), o.presence_penalty, o.frequency_penalty);
  }
  rules.ban_repeated_ngrams(history.tokens, o.no_repeat_ngram_size);
  for (const auto& word : o.bad_words_ids) {
    // Skips single end tokens, which are not bad words.
    if (word.size() == 1 && std::ranges::find(ends, word[0]) != ends.end()) continue;
    rules.add_sequence_bias(history.tokens, word, kNever);
  }
  if (length < o.min_length || added < o.min_new_tokens) rules.suppress(ends);
  if (o.forced_bos_token_id && length == 1) force({&*o.forced_bos_token_id, 1});
  if (!o.forced_eos_token_id.empty() && longest > 0 && length == longest - 1) {
    force(o.forced_eos_token_id);
  }
  if (const auto& decay = o.exponential_decay_length_penalty; decay && added > decay->first) {
    rules.encourage(ends, decay->second, added - decay->first);
  }
  rules.suppress(o.suppress_tokens);
  if (added == 0) rules.suppress(o.begin_suppress_tokens);
}

bool depends_on_tokens(const SearchOptions& o) {
  const auto is_long = [](const auto& tokens) { return tokens.size() > 1; };
  return o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0 ||
         o.no_repeat_ngram_size > 0 || std::ranges::any_of(o.bad_words_ids, is_long) ||
         std::ranges::any_of(o.sequence_bias, is_long, &SequenceBias::tokens);
}

void apply_rules(Logits logits, const History& history, const SearchOptions& options, Tokens ends,
                 int64_t longest) {
  thread_local LogitChanges changes;  // keeps its memory
  changes.clear();
  add_rules(history, options, ends, longest, std::ssize(logits), changes);
  for (const LogitEdit& edit : changes.edits) {
    float& x = logits[static_cast<size_t>(edit.token)];
    x = edited(x, edit.kind, edit.value);
  }
  if (!changes.forces) return;
  const ScratchArray<bool> keep(std::ssize(logits));
  std::ranges::fill(keep, false);
  for (const Token token : changes.forced) {
    if (token >= 0 && token < std::ssize(logits)) keep[static_cast<size_t>(token)] = true;
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!keep[i]) logits[i] = kNever;
  }
}

}  // namespace lathe::search

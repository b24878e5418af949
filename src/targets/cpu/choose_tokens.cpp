// SPDX-License-Identifier: MIT
// Chooses tokens of all sequences in parallel. Partial selection comes first: the cut-offs behind
// top-k or top-p, and their exponentials, see only what these leave. With the reference's order of
// additions over what is left, tokens are the reference's.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ir/ops.h"
#include "ops/support/choose_tokens.h"
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/kernels/elementwise/token_ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The logits of one sequence and the largest of each block.
class Logits {
 public:
  Logits(const ChoiceOperands& o, int64_t row, const TokenOps& ops)
      : ops_(ops), count_(o.vocabulary()), data_(o.row_in_place(row)) {
    if (data_ == nullptr) read(o, row);
    maxima_ = ScratchArray<float>((count_ + TokenOps::kBlock - 1) / TokenOps::kBlock);
  }
  // A copy, to change.
  std::span<float> copy(const ChoiceOperands& o, int64_t row) {
    if (memory_.empty()) read(o, row);
    return {memory_.begin(), memory_.size()};
  }
  void find_maxima() { largest_ = ops_.block_maxima(data_, count_, maxima_.begin()); }

  int64_t count() const { return count_; }
  std::span<const float> all() const { return {data_, static_cast<size_t>(count_)}; }
  std::span<const float> maxima() const { return {maxima_.begin(), maxima_.size()}; }
  float largest() const { return largest_; }
  double exp_sum(double shift) const { return ops_.exp_sum(data_, count_, shift); }
  double exp_sum_of(size_t block, double shift) const {
    const int64_t begin = static_cast<int64_t>(block) * TokenOps::kBlock;
    return ops_.exp_sum(data_ + begin, std::min(TokenOps::kBlock, count_ - begin), shift);
  }
  // Calls f(token, logit) for those of the blocks that `accepts` selects by their largest.
  template <class Accepts, class F>
  void each(Accepts&& accepts, F&& f) const {
    for (size_t block = 0; block < maxima_.size(); ++block) {
      if (!accepts(maxima_[block])) continue;
      const int64_t begin = static_cast<int64_t>(block) * TokenOps::kBlock;
      const int64_t end = std::min(count_, begin + TokenOps::kBlock);
      for (int64_t i = begin; i < end; ++i) f(static_cast<int32_t>(i), data_[i]);
    }
  }

 private:
  void read(const ChoiceOperands& o, int64_t row) {
    memory_ = ScratchArray<float>(count_);
    o.read_row(row, {memory_.begin(), memory_.size()});
    data_ = memory_.begin();
  }

  const TokenOps& ops_;
  int64_t count_;
  const float* data_;
  ScratchArray<float> memory_;
  ScratchArray<float> maxima_;
  float largest_ = kNever;
};

// Tokens that are left, ascending, and their logits.
class Survivors {
 public:
  explicit Survivors(int64_t most) : tokens_(most), logits_(most) {}
  void add(int32_t token, float logit) {
    tokens_[count_] = token;
    logits_[count_++] = logit;
  }
  void keep_first(size_t count) { count_ = count; }
  size_t size() const { return count_; }
  std::span<int32_t> tokens() const { return {tokens_.begin(), count_}; }
  std::span<float> logits() const { return {logits_.begin(), count_}; }
  // The k-th largest logit; changes the scratch.
  float kth_largest(size_t k, std::span<float> scratch) const {
    std::ranges::copy(logits(), scratch.begin());
    const auto at = scratch.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(scratch.begin(), at, scratch.begin() + static_cast<std::ptrdiff_t>(count_),
                     std::greater<>());
    return *at;
  }
  // Drops those below.
  void keep_from(float least) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (logits_[i] < least) continue;
      tokens_[kept] = tokens_[i];
      logits_[kept++] = logits_[i];
    }
    count_ = kept;
  }

 private:
  ScratchArray<int32_t> tokens_;
  ScratchArray<float> logits_;
  size_t count_ = 0;
};

// The k largest after division by the temperature, and those equal to the least of them.
void select_largest(const Logits& logits, int64_t k, double temperature, Survivors& left) {
  const auto divided = [&](float x) {
    return temperature == 1 ? x : x / static_cast<float>(temperature);
  };
  const ScratchArray<float> scratch(logits.count());
  // k blocks hold at least k elements from the k-th largest of their maxima on.
  float least = kNever;
  if (k <= std::ssize(logits.maxima())) {
    std::ranges::copy(logits.maxima(), scratch.begin());
    const auto at = scratch.begin() + (k - 1);
    std::nth_element(scratch.begin(), at, scratch.begin() + std::ssize(logits.maxima()),
                     std::greater<>());
    least = divided(*at);
  }
  logits.each([&](float most) { return most > kNever && divided(most) >= least; },
              [&](int32_t token, float x) {
                const float y = divided(x);
                if (y >= least && x > kNever) left.add(token, y);
              });
  if (std::ssize(left.tokens()) <= k) return;
  left.keep_from(left.kth_largest(static_cast<size_t>(k), {scratch.begin(), scratch.size()}));
}

// Those of the highest probabilities whose sum reaches p, found in shells of falling logits.
void select_nucleus(const Logits& logits, double p, Survivors& left) {
  const double total = logits.largest() + std::log(logits.exp_sum(logits.largest()));
  const ScratchArray<float> values(logits.count());
  const auto falls = [&](int32_t a, int32_t b) {
    const float x = values[static_cast<size_t>(a)];
    const float y = values[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  double sum = 0;
  float above = std::numeric_limits<float>::infinity();
  for (float depth = 4; sum < p; depth *= 2) {
    const bool last = depth > 256;
    const float from = last ? std::numeric_limits<float>::lowest() : logits.largest() - depth;
    const size_t first = left.size();
    logits.each([&](float most) { return most >= from; },
                [&](int32_t token, float x) {
                  if (!(x >= from && x < above)) return;
                  values[static_cast<size_t>(token)] = x;
                  left.add(token, x);
                });
    const std::span<int32_t> shell = left.tokens().subspan(first);
    std::ranges::sort(shell, falls);
    size_t kept = 0;
    for (; kept < shell.size() && sum < p; ++kept) {
      sum += std::exp(values[static_cast<size_t>(shell[kept])] - total);
    }
    left.keep_first(first + kept);
    above = from;
    if (last) break;
  }
  std::ranges::sort(left.tokens());
  for (size_t i = 0; i < left.size(); ++i) {
    left.logits()[i] = values[static_cast<size_t>(left.tokens()[i])];
  }
}

// Inverse-CDF sample over all tokens.
int32_t sample_all(const Logits& logits, double uniform) {
  const double largest = logits.largest();
  const ScratchArray<double> sums(std::ssize(logits.maxima()));
  double total = 0;
  for (size_t block = 0; block < sums.size(); ++block) {
    total += sums[block] = logits.exp_sum_of(block, largest);
  }
  const double goal = uniform * total;
  double sum = 0;
  size_t chosen = 0;
  for (size_t block = 0; block < sums.size(); ++block) {
    if (sums[block] == 0) continue;
    chosen = block;
    if (sum + sums[block] > goal) break;
    sum += sums[block];
  }
  int32_t token = -1;
  const size_t begin = chosen * static_cast<size_t>(TokenOps::kBlock);
  const size_t end = std::min(begin + TokenOps::kBlock, logits.all().size());
  for (size_t i = begin; i < end; ++i) {
    const double share = std::exp(double{logits.all()[i]} - largest);
    if (!(share > 0)) continue;
    token = static_cast<int32_t>(i);
    sum += share;
    if (sum > goal) break;
  }
  return token;
}

class ChooseTokens final : public Kernel {
 public:
  explicit ChooseTokens(Isa isa) : ops_(token_ops(isa)), isa_(isa) {}
  std::string_view name() const override { return "cpu.choose_tokens"; }
  std::string detail() const override { return std::string(to_string(isa_)); }

  void launch(const LaunchArgs& args) const override {
    const LaunchViews views(args);
    const ChoiceOperands o(views);
    parallel_for(args.pool, o.sequences(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t token = choose(o, i);
        o.store(ChoiceOperands::tokens, i, token);
        report(o, i, token);
      }
    });
  }

 private:
  int32_t choose(const ChoiceOperands& o, int64_t sequence) const {
    const int64_t row = o.integer(sequence, ChoiceInteger::row);
    if (!o.is_row(row)) return -1;
    Logits logits(o, row, ops_);
    if (o.changes(sequence) && !o.change(sequence, logits.copy(o, row))) return -1;
    logits.find_maxima();
    const ChoiceParameters parameters = o.parameters(sequence);
    if (!parameters.sample) return first_largest(logits);
    if (!std::isfinite(logits.largest())) return -1;
    return sample(o, sequence, logits, parameters);
  }

  static int32_t first_largest(const Logits& logits) {
    int32_t first = -1;
    logits.each([&](float most) { return first < 0 && most > kNever && most == logits.largest(); },
                [&](int32_t token, float x) {
                  if (first < 0 && x == logits.largest()) first = token;
                });
    return first;
  }

  int32_t sample(const ChoiceOperands& o, int64_t sequence, Logits& logits,
                 ChoiceParameters parameters) const {
    const double uniform = o.uniform(sequence);
    const bool selects_k = parameters.top_k > 0 && parameters.top_k < logits.count();
    if (!selects_k && parameters.temperature != 1) {
      divide_by_temperature(logits.copy(o, o.integer(sequence, ChoiceInteger::row)),
                            parameters.temperature);
      logits.find_maxima();
      if (!std::isfinite(logits.largest())) return -1;
    }
    const bool selects_p = parameters.top_p > 0 && parameters.top_p < 1;
    const bool cuts = parameters.min_p > 0 || parameters.typical_p < 1 ||
                      parameters.epsilon_cutoff > 0 || parameters.eta_cutoff > 0;
    if (!selects_k && !selects_p && !cuts) return sample_all(logits, uniform);
    Survivors left(logits.count());
    if (selects_k) {
      select_largest(logits, parameters.top_k, parameters.temperature, left);
    } else if (selects_p) {
      select_nucleus(logits, parameters.top_p, left);
      parameters.top_p = 0;
    } else {
      logits.each([](float most) { return most > kNever; },
                  [&](int32_t token, float x) {
                    if (x > kNever) left.add(token, x);
                  });
    }
    if (left.size() == 0) return -1;
    apply_late_cutoffs(left.logits(), parameters);
    const int32_t at = choose_by(left.logits(), uniform);
    return at < 0 ? -1 : left.tokens()[static_cast<size_t>(at)];
  }

  void report(const ChoiceOperands& o, int64_t sequence, int32_t token) const {
    const int64_t row = o.integer(sequence, ChoiceInteger::reported);
    if (!o.is_row(row)) return o.report_nothing(sequence);
    Logits logits(o, row, ops_);
    logits.find_maxima();
    int64_t most = 0;
    for (int64_t i = 0; i < o.rank_count(); ++i) most = std::max(most, o.rank(i) + 1);
    Survivors left(most > 0 ? logits.count() : 0);
    if (most > 0 && most < logits.count()) select_largest(logits, most, 1, left);
    if (!std::isfinite(logits.largest()) || std::ssize(left.tokens()) < most) {
      return o.report(sequence, token, logits.copy(o, row));
    }
    const double total = logits.largest() + std::log(logits.exp_sum(logits.largest()));
    const auto log_probability = [&](int32_t i) {
      const float x = logits.all()[static_cast<size_t>(i)];
      return static_cast<float>((std::isnan(x) ? kNever : x) - total);
    };
    o.store_log_probability(sequence, token < 0 ? 0 : log_probability(token));
    std::ranges::sort(left.tokens(), [&](int32_t a, int32_t b) {
      const float x = logits.all()[static_cast<size_t>(a)];
      const float y = logits.all()[static_cast<size_t>(b)];
      return x > y || (x == y && a < b);
    });
    for (int64_t i = 0; i < o.rank_count(); ++i) {
      const int64_t rank = o.rank(i);
      const int32_t likely = rank < 0 ? -1 : left.tokens()[static_cast<size_t>(rank)];
      o.store_likely(sequence, i, likely, likely < 0 ? 0 : log_probability(likely));
    }
  }

  const TokenOps& ops_;
  Isa isa_;
};

std::string why_not(const Instruction& /*instruction*/, Isa /*isa*/) { return ""; }

KernelChoice make(const Instruction& /*instruction*/, Constants /*constants*/, Isa isa) {
  return {std::make_unique<ChooseTokens>(isa), ""};
}

}  // namespace

const KernelEntry kChooseTokens{ops::choose_tokens, why_not, make};

}  // namespace lathe::cpu

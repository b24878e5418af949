// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_value.h"

#include <algorithm>

namespace lathe {
namespace {

using Found = std::optional<AffineValue>;

// not (x >= 0) is -x - 1 >= 0.
Linear opposite(Linear linear) {
  for (int64_t& step : linear.steps) step = -step;
  linear.offset = Dim(-1) - linear.offset;
  return linear;
}

bool same(double a, double b) { return a == b || (a <= kMasked && b <= kMasked); }

// Two single bounds contradict if their sum is a negative constant.
bool possible(const std::vector<std::vector<Linear>>& tests, size_t met) {
  for (size_t a = 0; a < tests.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (tests[a].size() != 1 || tests[b].size() != 1) continue;
      const auto side = [&](size_t t) {
        return (met >> t & 1) != 0 ? tests[t].front() : opposite(tests[t].front());
      };
      const Linear both = sum(side(a), side(b), 1);
      const bool constant = std::ranges::all_of(both.steps, [](int64_t s) { return s == 0; });
      if (constant && less_equal(both.offset, -1) == Ternary::yes) return false;
    }
  }
  return true;
}

// One test decides the value if the other tests cannot contradict it.
Found decided_by_one(const std::vector<std::vector<Linear>>& tests,
                     const std::function<double(size_t met)>& value_at) {
  for (size_t t = 0; t < tests.size(); ++t) {
    std::optional<double> values[2];
    bool settled = true;
    bool joins = false;
    for (size_t met = 0; met < size_t{1} << tests.size() && settled; ++met) {
      if (!possible(tests, met)) continue;
      std::optional<double>& own = values[met >> t & 1];
      const double value = value_at(met);
      settled = !own || same(*own, value);
      joins = joins || (own && *own != value);
      own = own ? std::max(*own, value) : value;
    }
    if (!settled || !values[0] || !values[1]) continue;
    if (*values[0] != *values[1]) {
      return AffineValue{std::nullopt, tests[t], *values[1], *values[0], joins};
    }
    if (!joins) return AffineValue::constant(*values[0]);
  }
  return std::nullopt;
}

}  // namespace

Linear aligned(Linear linear, int rank) {
  linear.steps.insert(linear.steps.begin(), static_cast<size_t>(rank) - linear.steps.size(), 0);
  return linear;
}

Linear sum(const Linear& a, const Linear& b, int64_t sign) {
  Linear all = a;
  for (size_t axis = 0; axis < all.steps.size(); ++axis) all.steps[axis] += sign * b.steps[axis];
  all.offset = a.offset + b.offset * Dim(sign);
  return all;
}

void prefer_yes(AffineValue& known) {
  if (known.conditions.size() != 1 || !(known.yes < known.no)) return;
  known.conditions.front() = opposite(known.conditions.front());
  std::swap(known.yes, known.no);
}

std::optional<AffineValue> join_choices(
    std::span<const AffineValue* const> choices, int rank,
    const std::function<double(double, double, double)>& function) {
  const size_t count = choices.size();
  std::vector<std::vector<Linear>> tests;  // without duplicates
  std::vector<size_t> test_of(count, 0);   // index in `tests` plus 1; 0: no test
  for (size_t i = 0; i < count; ++i) {
    std::vector<Linear> own = choices[i]->conditions;
    if (own.empty()) continue;
    for (Linear& condition : own) condition = aligned(std::move(condition), rank);
    const auto at = std::ranges::find(tests, own);
    test_of[i] = static_cast<size_t>(at - tests.begin()) + 1;
    if (at == tests.end()) tests.push_back(std::move(own));
  }
  const auto value_at = [&](size_t met) {
    double values[3] = {};
    for (size_t i = 0; i < count; ++i) {
      const bool yes = test_of[i] == 0 || (met >> (test_of[i] - 1) & 1) != 0;
      values[i] = yes ? choices[i]->yes : choices[i]->no;
    }
    return function(values[0], values[1], values[2]);
  };
  const size_t all = (size_t{1} << tests.size()) - 1;
  if (all == 0) return AffineValue::constant(value_at(0));
  const bool joined =
      std::ranges::any_of(choices, [](const AffineValue* choice) { return choice->joins_masks; });
  if (Found one = decided_by_one(tests, value_at)) {
    if (one->is_constant() && joined) return std::nullopt;
    one->joins_masks = one->joins_masks || joined;
    return one;
  }
  AffineValue result{std::nullopt, {}, value_at(all), value_at(0), joined};
  for (size_t met = 0; met < all; ++met) {
    const double value = value_at(met);
    if (!same(value, result.no)) return std::nullopt;
    result.joins_masks = result.joins_masks || value != result.no;
    result.no = std::max(result.no, value);
  }
  for (std::vector<Linear>& test : tests) {
    result.conditions.insert(result.conditions.end(), test.begin(), test.end());
  }
  return result;
}

std::optional<KeyMask> key_mask(const AffineValue& mask, bool boolean, double scale,
                                const Dim& past, const Dim& keys) {
  if (mask.linear || mask.conditions.empty()) return std::nullopt;
  const bool right =
      boolean ? mask.yes != 0 && mask.no == 0 : mask.yes == 0 && mask.no * scale <= kMasked;
  if (!right) return std::nullopt;
  KeyMask result;
  bool causal = false;
  for (const Linear& condition : mask.conditions) {
    const size_t rank = condition.steps.size();
    if (rank < 2) return std::nullopt;
    for (size_t axis = 0; axis + 2 < rank; ++axis) {
      if (condition.steps[axis] != 0) return std::nullopt;
    }
    const int64_t query = condition.steps[rank - 2];
    const int64_t key = condition.steps[rank - 1];
    if (query == 1 && key == -1 && condition.offset == past) {
      causal = true;
    } else if (query == -1 && key == 1) {
      // key > past + query - window
      const std::optional<int64_t> reach = (condition.offset + past).constant();
      if (!reach || *reach < 0) return std::nullopt;
      result.window = result.window == 0 ? *reach + 1 : std::min(result.window, *reach + 1);
    } else if (query == 0 && key == -1) {
      if (less_equal(keys - Dim(1), condition.offset) != Ternary::yes) return std::nullopt;
    } else if (query != 0 || key < 0 || less_equal(0, condition.offset) != Ternary::yes) {
      return std::nullopt;
    }
  }
  return causal ? std::optional(result) : std::nullopt;
}

}  // namespace lathe

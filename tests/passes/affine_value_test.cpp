// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_value.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace lathe {
namespace {

const Dim kPast(std::make_shared<const Symbol>(Symbol{"past", SymbolKind::bound, {}, {}}));
const Dim kRows(std::make_shared<const Symbol>(Symbol{"rows", SymbolKind::bound, {}, {}}));
const Dim kKeys = kPast + kRows;
constexpr double kLow = -1e9;

// query + past - key >= 0: keys up to the query's own position.
Linear up_to_own() { return {{1, -1}, kPast}; }
// key - query - past + reach >= 0
Linear not_before(int64_t reach) { return {{-1, 1}, Dim(reach) - kPast}; }
AffineValue mask(std::vector<Linear> conditions, double yes = 0, double no = kLow) {
  return {std::nullopt, std::move(conditions), yes, no};
}

TEST(KeyMask, recognises_causal_masks_and_windows) {
  const auto causal = key_mask(mask({up_to_own()}), false, 1, kPast, kKeys);
  ASSERT_TRUE(causal.has_value());
  EXPECT_EQ(causal->window, 0);
  const auto window = key_mask(mask({up_to_own(), not_before(4)}, 1, 0), true, 1, kPast, kKeys);
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(window->window, 5);
  // A bound beyond the last key has no effect.
  const Linear inside{{0, -1}, kKeys - Dim(1)};
  EXPECT_TRUE(key_mask(mask({inside, up_to_own()}), false, 1, kPast, kKeys).has_value());
}

TEST(KeyMask, rejects_other_masks) {
  const auto known = [](const AffineValue& given) {
    return key_mask(given, false, 1, kPast, kKeys).has_value();
  };
  EXPECT_FALSE(known(mask({not_before(4)})));                  // attends to later keys
  EXPECT_FALSE(known(mask({{{1, -1}, kPast + Dim(1)}})));      // one key too many
  EXPECT_FALSE(known(mask({{{1, -1}, 0}})));                   // ignores the past
  EXPECT_FALSE(known(mask({{{2, -1}, kPast}})));               // every other key
  EXPECT_FALSE(known(mask({up_to_own()}, 0, -5)));             // a small bias does not mask
  EXPECT_FALSE(known(mask({up_to_own()}, 1, kLow)));           // bias on allowed keys
  EXPECT_FALSE(known(mask({up_to_own(), {{0, -1}, kPast}})));  // masks new keys
  EXPECT_FALSE(known(mask({{{1, 1, -1}, kPast}, {{0, 1, -1}, kPast}})));  // differs by head
  EXPECT_FALSE(known(AffineValue::index(up_to_own())));
}

TEST(JoinChoices, joins_to_one_choice) {
  const AffineValue causal = mask({up_to_own()}, 1, 0);
  const AffineValue near = mask({not_before(4)}, 1, 0);
  const auto both = [](double a, double b, double) { return a != 0 && b != 0 ? 1.0 : 0.0; };
  const auto either = [](double a, double b, double) { return a != 0 || b != 0 ? 1.0 : 0.0; };
  const std::array<const AffineValue*, 2> pair = {&causal, &near};
  const auto conjunction = join_choices(pair, 2, both);
  ASSERT_TRUE(conjunction.has_value());
  EXPECT_EQ(conjunction->conditions.size(), 2U);
  EXPECT_EQ(conjunction->yes, 1);
  EXPECT_EQ(conjunction->no, 0);
  // At least one condition is true for every key.
  const auto always = join_choices(pair, 2, either);
  ASSERT_TRUE(always.has_value());
  EXPECT_TRUE(always->is_constant());
  EXPECT_EQ(always->yes, 1);
  const AffineValue sinks = mask({{{0, -1}, Dim(3)}}, 1, 0);
  const std::array<const AffineValue*, 2> apart = {&causal, &sinks};
  EXPECT_FALSE(join_choices(apart, 2, either).has_value());
  // A sum of masks masks where either one does.
  const AffineValue first = mask({up_to_own()});
  const AffineValue second = mask({not_before(4)}, 0, -std::numeric_limits<double>::infinity());
  const std::array<const AffineValue*, 2> masks = {&first, &second};
  const auto sum = join_choices(masks, 2, [](double a, double b, double) { return a + b; });
  ASSERT_TRUE(sum.has_value());
  EXPECT_TRUE(key_mask(*sum, false, 1, kPast, kKeys).has_value());
}

TEST(JoinChoices, drops_a_test_that_another_decides) {
  // key > query without the past, times key > query with it: the second test decides.
  const AffineValue later_than_query = mask({{{1, -1}, 0}}, 0, kLow);
  AffineValue later = mask({{{-1, 1}, Dim(-1) - kPast}}, 1, 0);
  const std::array<const AffineValue*, 2> pair = {&later_than_query, &later};
  auto product = join_choices(pair, 2, [](double a, double b, double) { return a * b; });
  ASSERT_TRUE(product.has_value());
  prefer_yes(*product);
  EXPECT_TRUE(key_mask(*product, false, 1, kPast, kKeys).has_value());
}

TEST(PreferYes, negates_a_condition) {
  AffineValue known = mask({{{-1, 1}, Dim(-1) - kPast}}, kLow, 0);
  prefer_yes(known);
  EXPECT_EQ(known.yes, 0);
  EXPECT_EQ(known.no, kLow);
  EXPECT_EQ(known.conditions.front(), up_to_own());
}

}  // namespace
}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/reduce_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

constexpr std::array kFolds{Fold::sum, Fold::sum_abs, Fold::sum_square, Fold::max, Fold::min};
constexpr int64_t kMaxCount = 203;

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.5F, 2.0F);
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) x = normal(engine);
  return all;
}

double defined(Fold fold, double a, double x) {
  switch (fold) {
    case Fold::sum:
      return a + x;
    case Fold::sum_abs:
      return a + std::abs(x);
    case Fold::sum_square:
      return a + x * x;
    case Fold::max:
      return std::max(a, x);
    case Fold::min:
      return std::min(a, x);
  }
  return 0;
}

TEST(ReduceOps, FoldRowsByTheirDefinitionWithTheSameBitsOnEveryInstructionSet) {
  for (const Fold fold : kFolds) {
    for (int64_t count = 0; count <= kMaxCount; ++count) {
      const auto x = random_values(count, static_cast<uint32_t>(count));
      double expected = fold_start(fold);
      for (const float each : x) expected = defined(fold, expected, each);
      const double first = reduce_ops(test::host_isas().front()).row(fold, x.data(), count);
      for (const Isa isa : test::host_isas()) {
        const double value = reduce_ops(isa).row(fold, x.data(), count);
        ASSERT_EQ(value, first);
        if (count > 0) ASSERT_NEAR(value, expected, 1e-12 * (1 + std::abs(expected)));
        if (count == 0) ASSERT_EQ(value, expected);
      }
    }
  }
}

TEST(ReduceOps, FoldColumnsByTheirDefinition) {
  for (const Isa isa : test::host_isas()) {
    for (const Fold fold : kFolds) {
      for (int64_t count = 1; count <= kMaxCount; ++count) {
        const auto x = random_values(count, 1);
        const auto start = random_values(count, 2);
        std::vector<double> to(start.begin(), start.end());
        to.push_back(-7);
        reduce_ops(isa).columns(fold, x.data(), to.data(), count);
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_EQ(to[i], defined(fold, static_cast<double>(start[i]), x[i]));
        }
        ASSERT_EQ(to.back(), -7);
      }
    }
  }
}

TEST(ReduceOps, KeepNaN) {
  for (const Isa isa : test::host_isas()) {
    for (const Fold fold : kFolds) {
      for (size_t at = 0; at < 70; ++at) {
        auto x = random_values(70, 3);
        x[at] = NAN;
        ASSERT_TRUE(std::isnan(reduce_ops(isa).row(fold, x.data(), 70)));
        std::vector<double> to(70, 0.0);
        reduce_ops(isa).columns(fold, x.data(), to.data(), 70);
        ASSERT_TRUE(std::isnan(to[at]));
        ASSERT_TRUE(std::isnan(folded(fold, to[at], 1)) && std::isnan(folded(fold, 1, to[at])));
      }
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/token_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_values(int64_t count) {
  std::mt19937 engine(static_cast<uint32_t>(count));
  std::normal_distribution<float> normal(-3, 40);
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) {
    x = engine() % 17 == 0 ? -kInfinity : engine() % 19 == 0 ? NAN : normal(engine);
  }
  return all;
}

TEST(TokenOps, FindTheLargestOfEachBlock) {
  for (const Isa isa : test::host_isas()) {
    for (int64_t count = 0; count <= 400; count += count < 140 ? 1 : 13) {
      const auto x = random_values(count);
      const int64_t blocks = (count + TokenOps::kBlock - 1) / TokenOps::kBlock;
      std::vector<float> maxima(static_cast<size_t>(blocks) + 1, 7.0F);
      const float largest = token_ops(isa).block_maxima(x.data(), count, maxima.data());
      float all = -kInfinity;
      for (int64_t block = 0; block < blocks; ++block) {
        float expected = -kInfinity;
        for (int64_t i = 64 * block; i < std::min(count, 64 * block + 64); ++i) {
          if (x[static_cast<size_t>(i)] > expected) expected = x[static_cast<size_t>(i)];
        }
        ASSERT_EQ(maxima[static_cast<size_t>(block)], expected);
        all = std::max(all, expected);
      }
      ASSERT_EQ(largest, all);
      ASSERT_EQ(maxima.back(), 7.0F);
    }
  }
}

TEST(TokenOps, SumExponentialsWithTheSameBitsOnEveryInstructionSet) {
  for (int64_t count = 0; count <= 300; count += count < 70 ? 1 : 23) {
    const auto x = random_values(count);
    double shift = 0.25;
    for (const float each : x) shift = each > shift ? static_cast<double>(each) : shift;
    double expected = 0;
    for (const float each : x) expected += std::isnan(each) ? 0 : std::exp(each - shift);
    const double first = token_ops(test::host_isas().front()).exp_sum(x.data(), count, shift);
    for (const Isa isa : test::host_isas()) {
      const double sum = token_ops(isa).exp_sum(x.data(), count, shift);
      ASSERT_EQ(sum, first);
      ASSERT_NEAR(sum, expected, 1e-15 * static_cast<double>(1 + count) * expected);
    }
  }
}

TEST(TokenOps, ExponentialsAreThoseOfTheMathLibrary) {
  for (const Isa isa : test::host_isas()) {
    for (float x = 0; x > -720; x -= 0.37F) {
      const double expected = x < -708 ? 0 : std::exp(double{x});
      ASSERT_NEAR(token_ops(isa).exp_sum(&x, 1, 0), expected, 4e-16 * expected) << x;
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Weights quantised to 4 bits: equal bits on all instruction sets, and never worse than rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "targets/cpu/kernels/simd/isa.h"
#include "targets/cpu/kernels/weight_only/weight_only.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

struct Fitted {
  std::vector<uint8_t> codes;
  std::vector<float> scales, minimums;
  bool operator==(const Fitted& other) const {
    return codes == other.codes && same(scales, other.scales) && same(minimums, other.minimums);
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return std::ranges::equal(a, b, [](float x, float y) {
      return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
             (std::isnan(x) && std::isnan(y));
    });
  }
};

Fitted fit(FitBlock how, const std::vector<float>& values, bool symmetric) {
  Fitted out{std::vector<uint8_t>(values.size()), std::vector<float>(kFitColumns),
             std::vector<float>(kFitColumns)};
  how(values.data(), static_cast<int64_t>(values.size()) / kFitColumns, symmetric, out.codes.data(),
      out.scales.data(), out.minimums.data());
  return out;
}

// Columns of several magnitudes; some of equal values, some with infinities and NaN.
std::vector<float> random_columns(std::mt19937& random, int64_t block) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(block * kFitColumns));
  for (int64_t c = 0; c < kFitColumns; ++c) {
    const float scale = std::exp2(static_cast<float>(random() % 30) - 20);
    const auto kind = random() % 8;
    for (int64_t i = 0; i < block; ++i) {
      float x = scale * (normal(random) + (kind == 1 ? 3.0F : 0.0F));
      if (kind == 2) x = scale;
      if (kind == 3) x = 0;
      if (kind == 4 && random() % 9 == 0) x = random() % 2 == 0 ? INFINITY : NAN;
      values[static_cast<size_t>(i * kFitColumns + c)] = x;
    }
  }
  return values;
}

double squared_error(const Fitted& fitted, const std::vector<float>& values, int64_t column) {
  double sum = 0;
  const auto c = static_cast<size_t>(column);
  for (size_t i = c; i < values.size(); i += kFitColumns) {
    const double off =
        static_cast<double>(fitted.codes[i]) * fitted.scales[c] + fitted.minimums[c] - values[i];
    sum += off * off;
  }
  return sum;
}

TEST(WeightOnlyFit, HasEqualBitsOnAllInstructionSets) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> values = random_columns(random, int64_t{16} << random() % 4);
    for (const bool symmetric : {false, true}) {
      const Fitted expected = fit(fit_block, values, symmetric);
      for (const Isa isa : test::host_isas()) {
        EXPECT_TRUE(fit(weight_only_fit(isa), values, symmetric) == expected)
            << to_string(isa) << ", round " << round;
      }
      for (const uint8_t code : expected.codes) EXPECT_LE(code, 15);
    }
  }
}

// Rounds to the codes of the whole range.
double error_of_rounding(const std::vector<float>& values, size_t column) {
  float least = INFINITY, most = -INFINITY;
  for (size_t i = column; i < values.size(); i += kFitColumns) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  const double scale = (static_cast<double>(most) - least) / 15;
  double sum = 0;
  for (size_t i = column; i < values.size(); i += kFitColumns) {
    const double off = std::nearbyint((values[i] - least) / scale) * scale + least - values[i];
    sum += off * off;
  }
  return sum;
}

TEST(WeightOnlyFit, IsCloserThanRounding) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  double fitted_error = 0, rounded_error = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<float> values(32 * kFitColumns);
    for (float& x : values) x = 0.05F * normal(random);
    const Fitted fitted = fit(fit_block, values, false);
    for (int64_t c = 0; c < kFitColumns; ++c) {
      fitted_error += squared_error(fitted, values, c);
      rounded_error += error_of_rounding(values, static_cast<size_t>(c));
    }
  }
  EXPECT_LT(fitted_error, 0.9 * rounded_error);
}

TEST(WeightOnlyFit, KeepsValuesOfAGrid) {
  std::mt19937 random(7);
  std::vector<float> values(32 * kFitColumns);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto c = static_cast<float>(i % kFitColumns + 1);
    const size_t row = i / kFitColumns;
    const unsigned code = row == 0 ? 0 : row == 1 ? 15 : random() % 16;
    values[i] = static_cast<float>(code) * (c / 64) - c / 8;
  }
  const Fitted fitted = fit(fit_block, values, false);
  for (int64_t c = 0; c < kFitColumns; ++c) EXPECT_EQ(squared_error(fitted, values, c), 0) << c;
}

}  // namespace
}  // namespace lathe::cpu

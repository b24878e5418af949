// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/row_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

using test::host_isas;

constexpr int64_t kMaxCount = 203;  // every remainder of a vector
constexpr float kGuard = -77.0F;

std::vector<float> random_values(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.5F, 2.0F);
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) x = normal(engine);
  return all;
}

// A row followed by guard elements.
std::vector<float> guarded(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count) + 16, kGuard);
}
void expect_guard(const std::vector<float>& row, int64_t count) {
  for (size_t i = static_cast<size_t>(count); i < row.size(); ++i) ASSERT_EQ(row[i], kGuard);
}

TEST(RowOps, SoftmaxOfColumnsIsThatOfTransposedRows) {
  constexpr int64_t kRows = 7;
  for (const Isa isa : host_isas()) {
    for (int64_t count = 1; count <= 2 * kMaxCount; ++count) {
      const int64_t stride = count + 3;
      const auto x = random_values(kRows * stride, 1);
      auto y = guarded(kRows * count);
      row_ops(isa).softmax_columns(x.data(), stride, y.data(), count, kRows, count);
      for (int64_t column = 0; column < count; ++column) {
        std::array<float, kRows> own, expected;
        for (int64_t row = 0; row < kRows; ++row) {
          own[static_cast<size_t>(row)] = x[static_cast<size_t>(row * stride + column)];
        }
        row_ops(isa).softmax(own.data(), expected.data(), kRows);
        for (int64_t row = 0; row < kRows; ++row) {
          ASSERT_NEAR(y[static_cast<size_t>(row * count + column)],
                      expected[static_cast<size_t>(row)], 1e-6)
              << count << " " << column << " " << row;
        }
      }
      expect_guard(y, kRows * count);
    }
  }
}

TEST(RowOps, NormalizationMatchesItsDefinition) {
  for (const Isa isa : host_isas()) {
    for (int64_t count = 1; count <= kMaxCount; ++count) {
      const auto x = random_values(count, 1), skip = random_values(count, 2),
                 bias = random_values(count, 3);
      const auto gamma = random_values(count, 4), beta = random_values(count, 5);
      for (const int form : {0, 1, 2, 3, 4}) {
        auto y = guarded(count), sum = guarded(count);
        NormalizedRow row;
        row.x = x.data();
        if (form < 4) row.gamma = gamma.data();
        row.y = y.data();
        row.count = count;
        row.epsilon = 1e-3F;
        row.centred = form % 2 == 1;
        if (form >= 1) row.beta = beta.data();
        if (form >= 2) row.skip = skip.data();
        if (form == 3) row.bias = bias.data();
        if (form >= 2) row.sum = sum.data();
        const RowMoments moments = row_ops(isa).normalize(row);
        double mean = 0, squares = 0;
        const auto at = [&](size_t i) {
          return static_cast<double>(x[i]) + (form >= 2 ? skip[i] : 0) + (form == 3 ? bias[i] : 0);
        };
        for (size_t i = 0; i < x.size(); ++i) mean += at(i) / static_cast<double>(count);
        if (!row.centred) mean = 0;
        for (size_t i = 0; i < x.size(); ++i) squares += (at(i) - mean) * (at(i) - mean);
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(count) + 1e-3);
        EXPECT_NEAR(moments.inverse, inverse, 1e-5 * inverse);
        EXPECT_NEAR(moments.mean, mean, 1e-5);
        for (size_t i = 0; i < x.size(); ++i) {
          const double factor = row.gamma == nullptr ? 1 : gamma[i];
          const double expected = (at(i) - mean) * inverse * factor + (form >= 1 ? beta[i] : 0);
          ASSERT_NEAR(y[i], expected, 2e-4 * (1 + std::abs(expected))) << count << " " << i;
          if (form >= 2) {
            ASSERT_NEAR(sum[i], at(i), 1e-5);
          }
        }
        expect_guard(y, count);
        expect_guard(sum, form >= 2 ? count : 0);
      }
    }
  }
}

TEST(RowOps, BinaryOpsMatchTheirDefinitions) {
  for (const Isa isa : host_isas()) {
    const RowOps& ops = row_ops(isa);
    for (int64_t count = 1; count <= kMaxCount; ++count) {
      const auto a = random_values(count, 6), b = random_values(count, 7);
      const auto check_op = [&](auto run, auto exact, double bound) {
        auto y = guarded(count);
        run(a.data(), b.data(), y.data(), count);
        for (size_t i = 0; i < a.size(); ++i) {
          ASSERT_NEAR(y[i], exact(a[i], b[i]), bound * (1 + std::abs(exact(a[i], b[i]))));
        }
        expect_guard(y, count);
      };
      check_op(ops.add, [](double u, double v) { return u + v; }, 1e-7);
      check_op(ops.sub, [](double u, double v) { return u - v; }, 1e-7);
      check_op(ops.mul, [](double u, double v) { return u * v; }, 1e-7);
      check_op([&](const float* u, const float* v, float* y,
                   int64_t n) { ops.swiglu(1.5F, u, v, y, n); },
               [](double u, double v) { return u / (1 + std::exp(-1.5 * u)) * v; }, 1e-6);
    }
  }
}

TEST(RowOps, CombinesRowsByWeights) {
  for (const Isa isa : host_isas()) {
    for (int64_t count = 1; count <= kMaxCount; ++count) {
      std::vector<std::vector<float>> rows;
      std::vector<const float*> pointers;
      for (uint32_t i = 0; i < 5; ++i)
        pointers.push_back(rows.emplace_back(random_values(count, i)).data());
      const std::vector<float> weights{0.5F, -2, 0.25F, 3, 1};
      for (const int64_t used : {1, 2, 3, 5}) {
        auto y = guarded(count);
        row_ops(isa).combine(pointers.data(), weights.data(), used, y.data(), count);
        for (size_t i = 0; i < rows[0].size(); ++i) {
          double expected = 0;
          for (size_t row = 0; row < static_cast<size_t>(used); ++row) {
            expected += static_cast<double>(rows[row][i]) * static_cast<double>(weights[row]);
          }
          ASSERT_NEAR(y[i], expected, 1e-5);
        }
        expect_guard(y, count);
      }
    }
  }
}

TEST(RowOps, KeepsInfinityAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {infinity, -infinity, NAN, 1}, b = {1, infinity, 1, NAN};
  for (const Isa isa : host_isas()) {
    std::vector<float> y(4);
    row_ops(isa).add(a.data(), b.data(), y.data(), 4);
    EXPECT_EQ(y[0], infinity);
    EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2]) && std::isnan(y[3]));
  }
}

TEST(RowOps, RotatesPairsHalfARowApart) {
  for (const Isa isa : host_isas()) {
    for (int64_t half = 1; half <= 70; ++half) {
      const int64_t size = 2 * half + half % 3;
      const auto x = random_values(size, 8), c = random_values(half, 9),
                 s = random_values(half, 10);
      auto y = guarded(size);
      row_ops(isa).rotate(x.data(), c.data(), s.data(), half, size, y.data());
      for (size_t i = 0; i < c.size(); ++i) {
        const size_t j = i + c.size();
        // Three roundings, as in the reference.
        const float left = x[i] * c[i], right = x[j] * s[i];
        ASSERT_EQ(y[i], left - right);
        const float up = x[i] * s[i], down = x[j] * c[i];
        ASSERT_EQ(y[j], up + down);
      }
      for (size_t i = 2 * c.size(); i < x.size(); ++i) ASSERT_EQ(y[i], x[i]);
      expect_guard(y, size);
    }
  }
}

TEST(RowOps, RotatesPairsOfNeighbours) {
  for (const Isa isa : host_isas()) {
    for (int64_t half = 1; half <= 70; ++half) {
      const int64_t size = 2 * half + half % 3;
      const auto x = random_values(size, 8), c = random_values(half, 9),
                 s = random_values(half, 10);
      auto y = guarded(size);
      row_ops(isa).rotate_pairs(x.data(), c.data(), s.data(), half, size, y.data());
      for (size_t i = 0; i < c.size(); ++i) {
        const float left = x[2 * i] * c[i], right = x[2 * i + 1] * s[i];
        ASSERT_EQ(y[2 * i], left - right);
        const float up = x[2 * i] * s[i], down = x[2 * i + 1] * c[i];
        ASSERT_EQ(y[2 * i + 1], up + down);
      }
      for (size_t i = 2 * c.size(); i < x.size(); ++i) ASSERT_EQ(y[i], x[i]);
      expect_guard(y, size);
    }
  }
}

TEST(RowOps, SoftmaxMatchesItsDefinition) {
  for (const Isa isa : host_isas()) {
    for (int64_t count = 1; count <= kMaxCount; ++count) {
      auto x = random_values(count, 1);
      if (count > 2) x[1] = -std::numeric_limits<float>::infinity();
      const float most = *std::max_element(x.begin(), x.end());
      double sum = 0;
      for (const float value : x) sum += std::exp(static_cast<double>(value) - most);
      auto y = guarded(count);
      row_ops(isa).softmax(x.data(), y.data(), count);
      expect_guard(y, count);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(y[i], std::exp(static_cast<double>(x[i]) - most) / sum, 1e-6) << i;
      }
      row_ops(isa).softmax(x.data(), x.data(), count);  // in place
      for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], y[i]);
    }
  }
}

// A row of -inf and one with NaN have no distribution.
TEST(RowOps, SoftmaxOfNoNumbersIsNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Isa isa : host_isas()) {
    for (const float value : {-kInf, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(20, value);
      if (std::isnan(value)) std::fill(x.begin() + 1, x.end(), 1.0F);
      row_ops(isa).softmax(x.data(), x.data(), 20);
      for (const float y : x) ASSERT_TRUE(std::isnan(y));
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

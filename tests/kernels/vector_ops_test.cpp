// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/vector_ops.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/math/coefficients.h"
#include "targets/cpu/kernels/simd/simd_math_fits.h"
#include "tests/kernels/support/isas.h"

namespace lathe::cpu {
namespace {

using test::host_isas;

// The definitions, in f64.
double exact(Activation f, double a, double b, double x) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  switch (f) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::leaky_relu:
      return x < 0 ? a * x : x;
    case Activation::clip:
      return std::min(std::max(x, a), b);
    case Activation::sigmoid:
      return sigmoid;
    case Activation::silu:
      return x / (1 + std::exp(-a * x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::gelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::elu:
      return x < 0 ? a * std::expm1(x) : x;
    case Activation::hard_sigmoid:
      return std::max(0.0, std::min(1.0, a * x + b));
    case Activation::hard_swish:
      return x * std::max(0.0, std::min(1.0, x / 6 + 0.5));
    case Activation::exp:
      return std::exp(x);
    case Activation::erf:
      return std::erf(x);
  }
  return 0;
}

// Error bound relative to y, or to |x| where the formula cancels (x times almost 0).
double bound(Activation f, double x, double y) {
  constexpr double kUlp = 0x1p-23;
  switch (f) {
    case Activation::exp:
      return kUlp * std::abs(y) + 0x1p-149;
    case Activation::erf:
      return 1.5 * kUlp * std::abs(y);
    case Activation::sigmoid:
    case Activation::tanh:
      return 2.5 * kUlp * std::abs(y) + 0x1p-149;
    case Activation::silu:
      return (5 + std::abs(x)) * kUlp * std::max(std::abs(y), 0x1p-126);  // a x rounds
    default:
      return 3 * kUlp * std::max({std::abs(y), std::abs(x), 1e-30});
  }
}

TEST(VectorOps, ActivationsAreWithinTheirErrorBoundsOnEveryIsa) {
  constexpr float kA = 0.75F, kB = 1.25F;
  std::vector<float> x;
  for (float v = -110; v < 110; v += 0.0137F) x.push_back(v);
  for (float v = 1e-30F; v < 2; v *= 1.07F) {
    x.push_back(v);
    x.push_back(-v);
  }
  std::vector<float> y(x.size());
  for (const Isa isa : host_isas()) {
    for (int i = 0; i < kActivationCount; ++i) {
      const auto f = static_cast<Activation>(i);
      vector_ops(isa).activate(f, kA, kB, x.data(), y.data(), static_cast<int64_t>(x.size()));
      for (size_t k = 0; k < x.size(); ++k) {
        const double expected = exact(f, kA, kB, x[k]);
        if (std::abs(expected) > std::numeric_limits<float>::max()) {
          ASSERT_TRUE(std::isinf(y[k])) << to_string(isa) << " activation " << i << " of " << x[k];
          continue;
        }
        ASSERT_LE(std::abs(y[k] - expected), bound(f, x[k], expected))
            << to_string(isa) << " activation " << i << " of " << x[k] << ": " << y[k];
      }
    }
  }
}

TEST(VectorOps, EveryIsaHasTheSameBits) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0xFFF00000; bits += 0x12345)
    x.push_back(std::bit_cast<float>(bits));
  std::vector<float> first(x.size()), other(x.size());
  const auto count = static_cast<int64_t>(x.size());
  for (int i = 0; i < kActivationCount; ++i) {
    const auto f = static_cast<Activation>(i);
    vector_ops(Isa::avx2).activate(f, 0.5F, 2, x.data(), first.data(), count);
    for (const Isa isa : host_isas()) {
      vector_ops(isa).activate(f, 0.5F, 2, x.data(), other.data(), count);
      for (size_t k = 0; k < x.size(); ++k) {
        if (std::isnan(first[k]) && std::isnan(other[k])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(first[k]), std::bit_cast<uint32_t>(other[k]))
            << to_string(isa) << " activation " << i << " of " << x[k];
      }
    }
  }
}

// NaN may differ in its payload: the processor makes it quiet.
bool same_number(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(VectorOps, ConvertsAsTheReference) {
  using enum ElementType;
  std::vector<uint16_t> narrow(0x10000);
  for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<uint16_t>(i);
  std::vector<float> wide;
  for (const uint32_t low :
       {0x0000U, 0x0001U, 0x0FFFU, 0x1000U, 0x1001U, 0x7FFFU, 0x8000U, 0x8001U})
    for (uint32_t high = 0; high < 0x10000; ++high)
      wide.push_back(std::bit_cast<float>(high << 16 | low));
  wide.pop_back();  // a count that is no multiple of a vector
  const auto count = static_cast<int64_t>(wide.size());
  for (const Isa isa : host_isas()) {
    for (const ElementType type : {bf16, f16}) {
      std::vector<float> here(narrow.size()), expected(narrow.size());
      convert_elements(vector_ops(isa), f32, here.data(), type, narrow.data(), 0x10000);
      convert(f32, expected.data(), type, narrow.data(), 0x10000);
      for (size_t i = 0; i < narrow.size(); ++i)
        ASSERT_TRUE(same_number(here[i], expected[i])) << to_string(isa) << ' ' << i;
      std::vector<uint16_t> bits(wide.size()), rounded(wide.size());
      convert_elements(vector_ops(isa), type, bits.data(), f32, wide.data(), count);
      convert(type, rounded.data(), f32, wide.data(), count);
      for (size_t i = 0; i < wide.size(); ++i)
        ASSERT_EQ(bits[i], rounded[i]) << to_string(isa) << ' ' << wide[i];
    }
  }
}

TEST(VectorOps, NothingIsWrittenBeyondTheArray) {
  for (const Isa isa : host_isas()) {
    for (int64_t count = 0; count < 80; ++count) {
      std::vector<float> x(static_cast<size_t>(count), 2.0F), y(static_cast<size_t>(count) + 1, -1);
      vector_ops(isa).activate(Activation::relu, 0, 0, x.data(), y.data(), count);
      EXPECT_EQ(y.back(), -1.0F) << to_string(isa) << ' ' << count;
      for (int64_t i = 0; i < count; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], 2.0F);
    }
  }
}

template <size_t N, int kCount>
void expect_same(const std::array<double, N>& ops, const float (&here)[kCount]) {
  ASSERT_EQ(N, static_cast<size_t>(kCount));
  for (size_t i = 0; i < N; ++i) EXPECT_EQ(static_cast<float>(ops[i]), here[i]);
}

TEST(VectorOps, CoefficientsEqualTheReference) {
  expect_same(coefficients::kExpF32, fits::kExp);
  expect_same(coefficients::kErfF32, fits::kErf);
  expect_same(coefficients::kLogErfcF32, fits::kLogErfc);
  expect_same(coefficients::kExp2F32, fits::kExp2);
  expect_same(coefficients::kLogNormalTailF32, fits::kLogNormalTail);
  expect_same(coefficients::kLn2F32, fits::kLn2);
}

}  // namespace
}  // namespace lathe::cpu

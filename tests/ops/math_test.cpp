// SPDX-License-Identifier: MIT
// Measures the functions of ops/math.h against the C library in a wider type: double for f32, long
// double for f64.
#include "ops/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "ops/interpret.h"

namespace lathe {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class T>
constexpr ExprType kType = sizeof(T) == 4 ? ExprType::f32 : ExprType::f64;
template <class T>
constexpr ElementType kElement = sizeof(T) == 4 ? ElementType::f32 : ElementType::f64;
// Type of the reference.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

template <class T>
Expr argument(int index) {
  return Expr::argument(index, kType<T>);
}

template <class T>
std::vector<T> evaluate(const Expr& expr, std::span<const std::vector<T>> inputs) {
  std::vector<ElementOperand> operands;
  for (const std::vector<T>& input : inputs) operands.push_back({input.data(), kElement<T>});
  std::vector<T> out(inputs[0].size());
  CompiledExpr(expr).run(operands, out.data(), kElement<T>, static_cast<int64_t>(out.size()));
  return out;
}

// The distance in units of the last place of the exact result; infinity counts as the first power
// of two beyond the range. Wrong kinds of result (NaN, sign of zero) are infinitely wrong.
template <class T>
double ulp_error(T got, Wide<T> exact) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : kInf;
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : kInf;
  const auto beyond = std::ldexp(Wide<T>{1}, Limits::max_exponent);
  const auto bounded = [&](Wide<T> v) { return std::clamp(v, -beyond, beyond); };
  const Wide<T> target = bounded(exact);
  const int exponent =
      std::clamp(std::ilogb(target), Limits::min_exponent - 1, Limits::max_exponent - 1);
  const Wide<T> ulp = std::ldexp(Wide<T>{1}, exponent - Limits::digits + 1);
  return static_cast<double>(std::abs(bounded(got) - target) / ulp);
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (const T v : {T{0}, T{0.25}, T{0.5}, T{1}, T{1.5}, T{2}, T{3}, T{709.5}, T(88.7), T(103.9),
                    Limits::min(), Limits::denorm_min(), Limits::max(), Limits::infinity(),
                    Limits::epsilon(), std::sqrt(T{0.5}), std::sqrt(T{2}), T(M_PI), T(M_PI_2)}) {
    for (const T near : {v, std::nextafter(v, T{0}), std::nextafter(v, Limits::infinity())}) {
      values.push_back(near);
      values.push_back(-near);
    }
  }
  values.push_back(Limits::quiet_NaN());
  return values;
}

// Special values, bit patterns of the whole range, and a dense sweep of [low, high].
template <class T>
std::vector<T> samples(double low, double high, size_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::vector<T> values = special_values<T>();
  std::mt19937_64 random(7);
  for (size_t i = 0; i < count; ++i) {
    values.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    values.push_back(static_cast<T>(std::uniform_real_distribution<double>(low, high)(random)));
  }
  return values;
}

struct Worst {
  double error = 0;
  double at = 0, other = 0;
  void take(double e, double x, double y = 0) {
    if (e > error) *this = {e, x, y};
  }
};

struct Function {
  const char* name;
  Expr (*expr)(const Expr&);
  double (*f32)(double);
  long double (*f64)(long double);
  double bound_f32, bound_f64;
  double low, high;  // dense sweep
};

void PrintTo(const Function& function, std::ostream* out) { *out << function.name; }
std::string to_name(const testing::TestParamInfo<Function>& info) { return info.param.name; }

class Math : public testing::TestWithParam<Function> {};

template <class T, class Reference>
void measure(const Function& f, Reference reference, double bound, size_t count) {
  const std::vector<std::vector<T>> xs{samples<T>(f.low, f.high, count)};
  const std::vector<T> got = evaluate<T>(f.expr(argument<T>(0)), xs);
  Worst worst;
  for (size_t i = 0; i < got.size(); ++i) {
    const T x = xs[0][i];
    const double error = ulp_error<T>(got[i], reference(x));
    worst.take(error, x);
    ASSERT_LE(error, bound) << f.name << "(" << std::hexfloat << x << ") = " << got[i] << ", exact "
                            << reference(x);
  }
  testing::Test::RecordProperty(sizeof(T) == 4 ? "max_ulp_f32" : "max_ulp_f64",
                                std::to_string(worst.error));
  if (std::getenv("LATHE_TEST_VERBOSE") != nullptr) {
    std::printf("%-9s %s %.3f ulp at %a (bound %g)\n", f.name, sizeof(T) == 4 ? "f32" : "f64",
                worst.error, worst.at, bound);
  }
}

size_t sample_count(size_t usual) {
  const char* text = std::getenv("LATHE_TEST_SAMPLES");
  return text == nullptr ? usual : static_cast<size_t>(std::strtoull(text, nullptr, 10));
}

TEST_P(Math, StaysWithinItsBoundInF32) {
  measure<float>(GetParam(), GetParam().f32, GetParam().bound_f32, sample_count(1 << 17));
}

TEST_P(Math, StaysWithinItsBoundInF64) {
  measure<double>(GetParam(), GetParam().f64, GetParam().bound_f64, sample_count(1 << 15));
}

template <class T>
T exact_sigmoid(T x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
template <class T>
T exact_softplus(T x) {
  return std::max(x, T{0}) + (std::isnan(x) ? x : std::log1p(std::exp(-std::abs(x))));
}
template <class T>
T exact_rsqrt(T x) {
  return 1 / std::sqrt(x);
}

INSTANTIATE_TEST_SUITE_P(
    Functions, Math,
    testing::Values(Function{"exp", exp, std::exp, std::exp, 1, 1, -110, 100},
                    Function{"expm1", expm1, std::expm1, std::expm1, 2, 2, -3, 3},
                    Function{"log", log, std::log, std::log, 1, 1, 0, 3},
                    Function{"log1p", log1p, std::log1p, std::log1p, 1.5, 1.5, -1, 2},
                    Function{"sin", sin, std::sin, std::sin, 1, 1, -20, 20},
                    Function{"cos", cos, std::cos, std::cos, 1, 1, -20, 20},
                    Function{"tan", tan, std::tan, std::tan, 2.5, 2.5, -20, 20},
                    Function{"asin", asin, std::asin, std::asin, 1, 1, -1, 1},
                    Function{"acos", acos, std::acos, std::acos, 1.5, 1.5, -1, 1},
                    Function{"atan", atan, std::atan, std::atan, 1.5, 1.5, -4, 4},
                    Function{"sinh", sinh, std::sinh, std::sinh, 3, 3, -4, 4},
                    Function{"cosh", cosh, std::cosh, std::cosh, 2, 2, -4, 4},
                    Function{"tanh", tanh, std::tanh, std::tanh, 2.5, 3, -4, 4},
                    Function{"asinh", asinh, std::asinh, std::asinh, 3, 3, -4, 4},
                    Function{"acosh", acosh, std::acosh, std::acosh, 3, 3, 1, 5},
                    Function{"atanh", atanh, std::atanh, std::atanh, 3, 3, -1, 1},
                    Function{"erf", erf, std::erf, std::erf, 1.5, 2, -5, 5},
                    Function{"sigmoid", sigmoid, exact_sigmoid, exact_sigmoid, 2.5, 2.5, -20, 20},
                    Function{"softplus", softplus, exact_softplus, exact_softplus, 2, 2, -20, 20},
                    Function{"rsqrt", rsqrt, exact_rsqrt, exact_rsqrt, 1.5, 1.5, 0, 8}),
    to_name);

// Every pair of `values`, and random pairs with a finite power.
template <class T>
std::vector<std::vector<T>> pairs(const std::vector<T>& values, size_t count) {
  std::vector<std::vector<T>> out(2);
  for (const T x : values) {
    for (const T y : values) {
      out[0].push_back(x);
      out[1].push_back(y);
    }
  }
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const double range = std::numeric_limits<T>::max_exponent * 1.1;
  for (size_t i = 0; i < count; ++i) {
    const double log2_x = uniform(random) * (i % 2 == 0 ? range : 1);
    out[0].push_back(static_cast<T>(std::exp2(log2_x)));
    out[1].push_back(static_cast<T>(uniform(random) * range / log2_x));
  }
  return out;
}

template <class T>
void measure_pow(double bound, size_t count) {
  std::vector<T> values = special_values<T>();
  for (const double v : {5.0, 7.0, 0.1, 10.0, 1e9, 4503599627370497.0, 0x1p24 + 1}) {
    values.push_back(static_cast<T>(v));
    values.push_back(static_cast<T>(-v));
  }
  const std::vector<std::vector<T>> in = pairs<T>(values, count);
  const std::vector<T> got = evaluate<T>(pow(argument<T>(0), argument<T>(1)), in);
  Worst worst;
  for (size_t i = 0; i < got.size(); ++i) {
    const Wide<T> exact = std::pow(Wide<T>{in[0][i]}, Wide<T>{in[1][i]});
    // Beyond the wider type's range, the reference has the wrong magnitude, not the wrong kind.
    const double error = ulp_error<T>(got[i], exact);
    worst.take(error, in[0][i], in[1][i]);
    ASSERT_LE(error, bound) << std::hexfloat << in[0][i] << " ^ " << in[1][i] << " = " << got[i]
                            << ", exact " << exact;
  }
  if (std::getenv("LATHE_TEST_VERBOSE") != nullptr) {
    std::printf("pow %zu %.3f ulp at %a, %a\n", sizeof(T), worst.error, worst.at, worst.other);
  }
}

TEST(Pow, StaysWithinItsBoundInF32) { measure_pow<float>(1.5, sample_count(1 << 18)); }
TEST(Pow, StaysWithinItsBoundInF64) { measure_pow<double>(1.5, sample_count(1 << 17)); }

TEST(Pow, FollowsTheTableOfSpecialCasesOfC) {
  const std::vector<std::vector<double>> cases{
      // base, exponent, result
      {kNaN, 0, 1},     {1, kNaN, 1},      {-1, kInf, 1},       {-1, -kInf, 1},
      {0, -3, kInf},    {-0.0, -3, -kInf}, {-0.0, -2, kInf},    {0, -kInf, kInf},
      {-0.0, 3, -0.0},  {-0.0, 2, 0},      {-0.0, 0.5, 0},      {0.5, -kInf, kInf},
      {2, -kInf, 0},    {0.5, kInf, 0},    {-2, kInf, kInf},    {-kInf, -3, -0.0},
      {-kInf, -2, 0},   {-kInf, 3, -kInf}, {-kInf, 2, kInf},    {-kInf, 0.5, kInf},
      {kInf, -0.5, 0},  {kInf, 0.5, kInf}, {-8, 1.0 / 3, kNaN}, {-2, 3, -8},
      {-2, -2, 0.25},   {kNaN, 1, kNaN},   {2, kNaN, kNaN},     {-2, 1025, -kInf},
      {-2, -1075, -0.0}};
  for (const auto& c : cases) {
    const std::vector<double> got =
        evaluate<double>(pow(argument<double>(0), argument<double>(1)),
                         std::vector<std::vector<double>>{{c[0]}, {c[1]}});
    EXPECT_EQ(ulp_error<double>(got[0], c[2]), 0) << c[0] << " ^ " << c[1] << " = " << got[0];
  }
}

int64_t integer_result(const Expr& expr) {
  EXPECT_TRUE(expr.is_constant());
  return static_cast<int64_t>(expr.constant_bits());
}

TEST(Pow, IsExactForIntegers) {
  const auto power = [](int64_t x, int64_t y) {
    return integer_result(pow(Expr::constant(ExprType::i64, x), Expr::constant(ExprType::i64, y)));
  };
  EXPECT_EQ(power(3, 4), 81);
  EXPECT_EQ(power(-3, 5), -243);
  EXPECT_EQ(power(2, 62), int64_t{1} << 62);
  EXPECT_EQ(power(7, 0), 1);
  EXPECT_EQ(power(0, 0), 1);
  EXPECT_EQ(power(10, 63), static_cast<int64_t>(0x8000000000000000u));  // modulo 2^64
  EXPECT_EQ(power(2, 64), 0);
  EXPECT_EQ(power(-1, 1001), -1);
  EXPECT_EQ(power(-1, 1000), 1);
  EXPECT_EQ(power(1, -5), 1);
  EXPECT_EQ(power(-1, -5), -1);
  EXPECT_EQ(power(5, -1), 0);
  EXPECT_EQ(power(0, -1), 0);
}

template <class T>
void compare_remainders(size_t count) {
  std::vector<std::vector<T>> in = pairs<T>(special_values<T>(), 0);
  std::mt19937_64 random(9);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  for (size_t i = 0; i < count; ++i) {
    in[0].push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    in[1].push_back(
        i % 2 == 0 ? std::bit_cast<T>(static_cast<Bits>(random()))
                   : static_cast<T>(std::ldexp(in[0].back(), -static_cast<int>(i % 60)) * T(0.7)));
  }
  const std::vector<T> c = evaluate<T>(fmod(argument<T>(0), argument<T>(1)), in);
  const std::vector<T> python = evaluate<T>(mod(argument<T>(0), argument<T>(1)), in);
  for (size_t i = 0; i < c.size(); ++i) {
    const T x = in[0][i], y = in[1][i], exact = std::fmod(x, y);
    ASSERT_EQ(ulp_error<T>(c[i], exact), 0) << std::hexfloat << x << " fmod " << y << " = " << c[i];
    T floored = exact;
    if (exact == 0) floored = std::copysign(exact, y);
    if (exact != 0 && std::signbit(exact) != std::signbit(y)) floored = exact + y;
    ASSERT_EQ(ulp_error<T>(python[i], floored), 0) << std::hexfloat << x << " mod " << y;
  }
}

TEST(Remainder, IsExactInF32) { compare_remainders<float>(1 << 16); }
TEST(Remainder, IsExactInF64) { compare_remainders<double>(1 << 12); }

TEST(Remainder, HasTheSignOfEitherOperandForIntegers) {
  const auto c = [](int64_t v) { return Expr::constant(ExprType::i64, v); };
  EXPECT_EQ(integer_result(fmod(c(-7), c(3))), -1);
  EXPECT_EQ(integer_result(fmod(c(7), c(-3))), 1);
  EXPECT_EQ(integer_result(mod(c(-7), c(3))), 2);
  EXPECT_EQ(integer_result(mod(c(7), c(-3))), -2);
  EXPECT_EQ(integer_result(mod(c(-6), c(3))), 0);
  EXPECT_EQ(integer_result(mod(c(5), c(0))), 5);
  EXPECT_EQ(integer_result(mod(c(std::numeric_limits<int64_t>::min()), c(-1))), 0);
}

TEST(Sin, IsAccurateNextToMultiplesOfHalfPi) {
  // The floats nearest to a multiple of pi/2, of all f32 and of all f64.
  const float single = 16367173 * 0x1p72f;
  const double large = 6381956970095103 * 0x1p797;
  const std::vector<float> sine =
      evaluate<float>(sin(argument<float>(0)), std::vector<std::vector<float>>{{single, 1e38f}});
  EXPECT_LE(ulp_error<float>(sine[0], std::sin(double{single})), 1);
  EXPECT_LE(ulp_error<float>(sine[1], std::sin(double{1e38f})), 1);
  const std::vector<double> cosine =
      evaluate<double>(cos(argument<double>(0)), std::vector<std::vector<double>>{{large, 1e300}});
  EXPECT_LE(ulp_error<double>(cosine[0], -4.68716592425462761112e-19L), 1);
  EXPECT_LE(ulp_error<double>(cosine[1], std::cos(static_cast<long double>(1e300))), 1);
}

}  // namespace
}  // namespace lathe

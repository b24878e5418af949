// SPDX-License-Identifier: MIT
#include "ir/expr.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lathe {
namespace {

Expr x(ExprType type = ExprType::f32) { return Expr::argument(0, type); }
Expr y(ExprType type = ExprType::f32) { return Expr::argument(1, type); }
Expr f32(double value) { return Expr::constant(ExprType::f32, value); }
Expr i64(int64_t value) { return Expr::constant(ExprType::i64, value); }
Expr u64(uint64_t value) { return Expr::constant(ExprType::u64, value); }

float float_value(const Expr& expr) {
  EXPECT_TRUE(expr.is_constant() && expr.type() == ExprType::f32) << to_string(expr);
  return std::bit_cast<float>(static_cast<uint32_t>(expr.constant_bits()));
}
int64_t value(const Expr& expr) {
  EXPECT_TRUE(expr.is_constant() && !is_floating(expr.type())) << to_string(expr);
  return static_cast<int64_t>(expr.constant_bits());
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    return error.what();
  }
  return "";
}

TEST(Expr, PrintsNestedAndSharedExpressions) {
  EXPECT_EQ(to_string(select(x() < 0, x() * 0.01, x())), "select(lt(x0, 0), mul(x0, 0.01), x0)");
  const Expr e = max(x(), y());
  EXPECT_EQ(to_string(e / (e + 1)), "%0 = max(x0, x1); div(%0, add(%0, 1))");
  EXPECT_EQ(to_string(convert(x(), ExprType::i64) + 3), "add(convert<i64>(x0), 3)");
  EXPECT_EQ(to_string(u64(~uint64_t{0})), "18446744073709551615");
  EXPECT_EQ(to_string(x() == x()), "eq(x0, x0)");
}

TEST(Expr, ConvertsNumbersToTheOtherOperandsType) {
  const Expr product = x() * 0.1;
  EXPECT_EQ(product.type(), ExprType::f32);
  EXPECT_EQ(product.inputs()[1].type(), ExprType::f32);
  EXPECT_EQ(float_value(product.inputs()[1]), 0.1f);
  EXPECT_EQ((2 - x(ExprType::u64)).inputs()[0].type(), ExprType::u64);
  EXPECT_EQ(select(x() < 0, 1, x()).type(), ExprType::f32);
  EXPECT_EQ(fma(x(ExprType::f64), 2, 1).inputs()[2].type(), ExprType::f64);
  EXPECT_EQ((x() < 1).type(), ExprType::boolean);
}

TEST(Expr, ComputesSmallFloatsInF32AndIntegersIn64Bits) {
  EXPECT_EQ(compute_type(ElementType::bf16), ExprType::f32);
  EXPECT_EQ(compute_type(ElementType::f4e2m1), ExprType::f32);
  EXPECT_EQ(compute_type(ElementType::f64), ExprType::f64);
  EXPECT_EQ(compute_type(ElementType::i2), ExprType::i64);
  EXPECT_EQ(compute_type(ElementType::u8), ExprType::u64);
  EXPECT_EQ(compute_type(ElementType::boolean), ExprType::boolean);
  EXPECT_FALSE(has_compute_type(ElementType::string));
  EXPECT_THROW(compute_type(ElementType::c64), Error);
}

TEST(Expr, FoldsConstantsInTheirOwnType) {
  EXPECT_EQ(float_value(f32(1) + 0x1p-25), 1.0f);  // an addition in double would keep it
  EXPECT_EQ(float_value(fma(f32(0x1.000002p0), 0x1.000002p0, -1)), 0x1.000001p-22f);
  EXPECT_EQ(float_value(sqrt(f32(2))), std::sqrt(2.0f));
  EXPECT_EQ(float_value(round_even(f32(2.5)) + round_even(f32(-3.5))), -2.0f);
  EXPECT_EQ(value(f32(2) < 3), 1);
  EXPECT_EQ(to_string(select(f32(1) == 1, x(), y())), "x0");
}

TEST(Expr, PropagatesNanThroughMinAndMax) {
  const Expr nan = f32(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(float_value(min(nan, 1))));
  EXPECT_TRUE(std::isnan(float_value(max(1, nan))));
  EXPECT_EQ(value(is_nan(nan)), 1);
  EXPECT_EQ(value(nan == nan), 0);
  EXPECT_EQ(value(nan != nan), 1);
  EXPECT_FALSE(std::signbit(float_value(abs(f32(-0.0)))));
}

TEST(Expr, DefinesIntegerDivisionAndShiftsEverywhere) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(value(i64(-7) / 2), -3);
  EXPECT_EQ(value(i64(7) / 0), 0);
  EXPECT_EQ(value(i64(kMin) / -1), kMin);
  EXPECT_EQ(value(abs(i64(kMin))), kMin);
  EXPECT_EQ(value(i64(std::numeric_limits<int64_t>::max()) + 1), kMin);
  EXPECT_EQ(value(i64(-8) >> 1), -4);
  EXPECT_EQ(value(i64(-8) >> 64), -1);
  EXPECT_EQ(value(i64(1) << 64), 0);
  EXPECT_EQ(value(i64(1) << -1), 0);
  EXPECT_EQ(value(u64(~uint64_t{0}) >> 63), 1);
  EXPECT_EQ(value(u64(5) >> 64), 0);
}

TEST(Expr, ConvertsWithSaturationAndWrapping) {
  EXPECT_EQ(value(convert(f32(-2.9), ExprType::i64)), -2);
  EXPECT_EQ(value(convert(f32(1e30), ExprType::i64)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(value(convert(f32(0x1p63), ExprType::i64)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(value(convert(f32(-1), ExprType::u64)), 0);
  EXPECT_EQ(value(convert(f32(NAN), ExprType::i64)), 0);
  EXPECT_EQ(value(convert(i64(-1), ExprType::u64)), -1);
  EXPECT_EQ(value(convert(f32(NAN), ExprType::boolean)), 1);
  EXPECT_EQ(float_value(convert(i64(16777217), ExprType::f32)), 16777216.0f);
  EXPECT_EQ(value(bitcast(f32(1), ExprType::i32)), 0x3F800000);
  EXPECT_EQ(float_value(bitcast(bitcast(f32(-0.5), ExprType::i32), ExprType::f32)), -0.5f);
}

TEST(Expr, CombinesBooleansLogically) {
  const Expr yes = Expr::constant(ExprType::boolean, true);
  EXPECT_EQ(value(yes && !yes), 0);
  EXPECT_EQ(value(yes || !yes), 1);
  EXPECT_EQ(value(yes ^ yes), 0);
  EXPECT_EQ(value(~i64(0)), -1);
}

TEST(Expr, RejectsIncompatibleTypes) {
  EXPECT_EQ(message_of([] { x() + y(ExprType::f64); }), "add of f32 and f64: the types must agree");
  EXPECT_EQ(message_of([] { floor(x(ExprType::i64)); }),
            "expression op floor is not defined for i64");
  EXPECT_EQ(message_of([] { x() & 1; }), "expression op bit_and is not defined for f32");
  EXPECT_EQ(message_of([] { x(ExprType::i64) && x(ExprType::i64); }),
            "expression op bit_and is not defined for i64");
  EXPECT_EQ(message_of([] { x(ExprType::i64) * 0.5; }),
            "constant 0.5 does not fit the expression type i64");
  EXPECT_EQ(message_of([] { x(ExprType::u64) + -1; }),
            "constant -1 does not fit the expression type u64");
  EXPECT_EQ(message_of([] { select(x() < 0, 1, 0); }), "select of two numbers has no type");
  EXPECT_EQ(message_of([] { bitcast(x(), ExprType::i64); }),
            "expression op bitcast is not defined for f32");
}

TEST(Expr, DestroysDeepChainsWithoutRecursion) {
  Expr sum = x();
  for (int i = 0; i < 1'000'000; ++i) sum = sum + 1;
  EXPECT_EQ(sum.type(), ExprType::f32);
}

struct Alpha final : FormulaAttributes {
  double number(std::string_view name) const override { return name == "alpha" ? 0.25 : 0; }
  int64_t integer(std::string_view name) const override { return name == "fmod" ? 1 : 0; }
  std::string_view text(std::string_view name) const override { return name; }
};

TEST(Formula, ReadsAttributesAndOperandsInTheirComputeTypes) {
  const std::vector<ElementType> operands{ElementType::f16, ElementType::i8};
  const Alpha attributes;
  const Formula f(operands, ElementType::f16, attributes);
  EXPECT_EQ(f.count(), 2);
  EXPECT_EQ(f.type(), ExprType::f32);
  EXPECT_EQ(f.x(1).type(), ExprType::i64);
  EXPECT_EQ(f.result_type(), ElementType::f16);
  EXPECT_EQ(to_string(f.x(0) * f.number("alpha")), "mul(x0, 0.25)");
  EXPECT_EQ(f.integer("fmod"), 1);
  EXPECT_EQ(f.text("direction"), "direction");
  EXPECT_EQ(message_of([&] { f.x(2); }), "a formula reads operand 2 of 2");
}

}  // namespace
}  // namespace lathe

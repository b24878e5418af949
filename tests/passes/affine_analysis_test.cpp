// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_analysis.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "ir/parse.h"

namespace lathe {
namespace {

TEST(AffineAnalysis, has_no_step_along_a_broadcast_axis) {
  const auto program = parse_program(R"(program "test" stage imported {
module @main(%p: i64[1, 8]) {
  %first = literal i64[1] {0}
  %one = literal i64[1] {1}
  %own = slice(%p, %first, %one, %one)
  %shape = literal i64[2] {1, 8}
  %all = expand(%own, %shape)
  return %all as "y"
}
})");
  const Module& main = program->main();
  const AffineAnalysis flow(main,
                            {{main.parameters().front().get(), AffineValue::index({{0, 1}, 5})}});
  const AffineValue* known = flow.find(main.results().front());
  ASSERT_NE(known, nullptr);
  ASSERT_TRUE(known->linear.has_value());
  EXPECT_EQ(known->linear->steps, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(known->linear->offset, Dim(5));
}

// What is known of the only result of a program of one parameter, i64[8], its own index.
std::optional<AffineValue> known_of(const std::string& body) {
  const auto program = parse_program("program \"test\" stage imported {\n" + body + "}\n");
  const Module& main = program->main();
  const AffineAnalysis flow(main,
                            {{main.parameters().front().get(), AffineValue::index({{1}, 0})}});
  const AffineValue* known = flow.find(main.results().front());
  return known == nullptr ? std::nullopt : std::optional(*known);
}

TEST(AffineAnalysis, truncates_integer_division_and_casts) {
  const auto quotient = known_of(R"(module @main(%p: i64[8]) {
  %a = literal i64[] {-7}
  %b = literal i64[] {2}
  %y = div(%a, %b)
  return %y as "y"
})");
  ASSERT_TRUE(quotient.has_value());
  EXPECT_EQ(quotient->yes, -3);
  const auto cast = known_of(R"(module @main(%p: i64[8]) {
  %a = literal f32[] {-2.5}
  %y = cast(%a) {to = i32}
  return %y as "y"
})");
  ASSERT_TRUE(cast.has_value());
  EXPECT_EQ(cast->yes, -2);
}

TEST(AffineAnalysis, gives_up_where_a_type_would_wrap) {
  const auto times = [](const std::string& by) {
    return known_of(
        "module @main(%p: i64[8]) {\n  %q = cast(%p) {to = i8}\n  %by = literal i8[] {" + by +
        "}\n  %y = mul(%q, %by)\n  return %y as \"y\"\n}");
  };
  EXPECT_TRUE(times("18").has_value());   // 7 · 18 = 126
  EXPECT_FALSE(times("19").has_value());  // 7 · 19 = 133
}

TEST(AffineAnalysis, does_not_compare_joined_masks) {
  // -10000 on one side of each diagonal: their sum is 0, -10000 or -20000.
  const auto result = [](const std::string& rest) {
    return known_of(
        "module @main(%p: i64[8]) {\n  %low = literal f32[] {-10000}\n"
        "  %dims = literal i64[2] {4, 4}\n  %all = expand(%low, %dims)\n"
        "  %one = literal i64[] {1}\n  %first = trilu(%all, %one) {upper = true}\n"
        "  %two = literal i64[] {-1}\n  %second = trilu(%all, %two) {upper = true}\n"
        "  %sum = add(%first, %second)\n  %least = literal f32[] {-15000}\n" +
        rest + "  return %y as \"y\"\n}");
  };
  const auto sum = result("  %y = cast(%sum) {to = f64}\n");
  ASSERT_TRUE(sum.has_value());
  EXPECT_TRUE(sum->joins_masks);
  EXPECT_FALSE(result("  %y = less(%sum, %least)\n").has_value());
  EXPECT_FALSE(result("  %y = neg(%sum)\n").has_value());
  EXPECT_TRUE(result("  %y = less(%first, %least)\n").has_value());
}

TEST(AffineAnalysis, knows_no_integers_that_doubles_round) {
  const auto literal = [](const std::string& number) {
    return known_of("module @main(%p: i64[8]) {\n  %y = literal i64[2] {" + number + ", " + number +
                    "}\n  return %y as \"y\"\n}");
  };
  EXPECT_TRUE(literal("9007199254740991").has_value());
  EXPECT_FALSE(literal("9007199254740993").has_value());
}

TEST(AffineAnalysis, knows_a_gather_of_equal_elements_only_within_them) {
  const auto picked = [](const std::string& count, const std::string& ones) {
    return known_of("module @main(%p: i64[8]) {\n  %ones = literal i64[" + count + "] {" + ones +
                    "}\n  %y = gather(%ones, %p) {axis = 0}\n  return %y as \"y\"\n}");
  };
  EXPECT_TRUE(picked("8", "1, 1, 1, 1, 1, 1, 1, 1").has_value());
  EXPECT_FALSE(picked("7", "1, 1, 1, 1, 1, 1, 1").has_value());
}

}  // namespace
}  // namespace lathe

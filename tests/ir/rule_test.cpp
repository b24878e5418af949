// SPDX-License-Identifier: MIT
#include "ir/rule.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using test::contains;

const Pattern x = value("x");
const Pattern y = value("y");

Pattern sum(const Pattern& a, const Pattern& b) { return op(get_op("test_add"), {a, b}); }

std::unique_ptr<Program> program_of(std::string_view body,
                                    std::string_view parameters = "%a: f32[2], %b: f32[2]") {
  return parse_program(fmt::format("program \"t\" stage imported {{ module @main({}) {{ {} }} }}",
                                   parameters, body));
}

// Applies the rules once and returns the lines of main; the program must stay valid.
std::string apply(const RuleTable& rules, Program& program) {
  rules.apply(program);
  EXPECT_EQ(fmt::format("{}", fmt::join(find_problems(program), "\n")), "");
  return print(program.main());
}

TEST(Rules, match_operands_of_commutative_ops_in_either_order) {
  const RuleTable rules(
      {{"add_two", x + constant(2), x}, {"test_add_two", sum(x, constant(2)), x}});
  const auto program = program_of(
      "%c = literal f32[2] {2, 2} %s = test_add(%c, %a) %t = test_add(%s, %c) return %t");
  EXPECT_TRUE(contains(apply(rules, *program), "return %a\n"));
}

TEST(Rules, bind_one_name_to_one_value_only) {
  const RuleTable rules({{"double", sum(x, x), x}});
  const auto program = program_of("%s = test_add(%a, %b) %t = test_add(%s, %s) return %t, %s");
  EXPECT_TRUE(contains(apply(rules, *program), "return %s, %s\n"));
}

TEST(Rules, undo_bindings_of_a_failed_attempt) {
  // With operands in order, x would be %b; only the swapped order matches.
  const RuleTable rules({{"inner", sum(x, sum(x, y)), y}});
  const auto program = program_of("%s = test_add(%b, %a) %t = test_add(%s, %b) return %t");
  EXPECT_TRUE(contains(apply(rules, *program), "return %a\n"));
}

TEST(Rules, distinguish_zero_from_minus_zero_in_every_element) {
  const RuleTable rules({{"add_zero", sum(x, constant(0)), x}});
  for (const std::string_view elements : {"0, -0", "-0, -0", "0, 1", "nan, nan"}) {
    const auto program = program_of(
        fmt::format("%c = literal f32[2] {{{}}} %s = test_add(%a, %c) return %s", elements));
    EXPECT_TRUE(contains(apply(rules, *program), "return %s\n")) << elements;
  }
  const auto program = program_of("%c = literal f32[2] {0, 0} %s = test_add(%a, %c) return %s");
  EXPECT_TRUE(contains(apply(rules, *program), "return %a\n"));
}

TEST(Rules, do_not_match_bindable_literals_or_unrepresentable_numbers) {
  const RuleTable rules({{"add_half", sum(x, constant(0.5)), x}});
  const auto bindable =
      program_of("%c = literal bindable f32[2] {0.5, 0.5} %s = test_add(%a, %c) return %s");
  EXPECT_TRUE(contains(apply(rules, *bindable), "return %s\n"));
  const auto integer =
      program_of("%c = literal i64[2] {0, 0} %s = test_add(%a, %c) return %s", "%a: i64[2]");
  EXPECT_TRUE(contains(apply(rules, *integer), "return %s\n"));
}

TEST(Rules, keep_the_type_of_the_root) {
  const RuleTable rules({{"add_zero", sum(x, constant(0)), x}});
  const auto program = program_of(
      "%c = literal f32[3, 2] {0, 0, 0, 0, 0, 0} "
      "%s = test_add(%a, %c) return %s");
  const std::string before = print(*program);
  EXPECT_FALSE(rules.apply(*program));
  EXPECT_EQ(print(*program), before);
}

TEST(Rules, undo_a_rejected_replacement) {
  const RuleTable rules({{"grow", op(get_op("test_composite"), {x}), [](Match& match) {
                            Value* found = match.b("test_nonzero", {match["x"]});
                            return match.b("test_composite", {found});
                          }}});
  const auto program = program_of("%s = test_composite(%a) return %s");
  const std::string before = print(*program);
  EXPECT_FALSE(rules.apply(*program));
  EXPECT_EQ(print(*program), before);
}

TEST(Rules, build_replacements_from_patterns_with_the_origins_of_the_root) {
  const RuleTable rules({{"swap", op(get_op("test_composite"), {sum(x, y)}), sum(y, x)}});
  const auto program =
      program_of("%s = test_add(%a, %b) %t = test_composite(%s) from \"node\" Op 7 return %t");
  const std::string text = apply(rules, *program);
  EXPECT_TRUE(contains(text, "= test_add(%b, %a) : f32[2]  from \"node\" Op 7\n"));
  EXPECT_FALSE(contains(text, "test_composite"));
}

TEST(Rules, match_listed_attributes) {
  const RuleTable rules({{"split", op(get_op("test_split"), {x}, {{"axis", int64_t{1}}}), x}});
  const auto program =
      program_of("%s = test_split(%a) {axis = 1} %t = test_split(%a) return %s, %t");
  EXPECT_TRUE(contains(apply(rules, *program), "return %a, %t\n"));
}

TEST(Rules, infer_users_of_the_new_value) {
  const RuleTable rules({{"drop", op(get_op("test_composite"), {x}), x}});
  const auto program = program_of(
      "%c = literal i64[2] {1, 2} %d = test_composite(%c) %e = test_add(%d, %d) "
      "%k = if(%b, %d) {then = @t, else = @e} return %e, %k } "
      "module @t(%p: i64[2]) { return %p } module @e(%p: i64[2]) { return %p",
      "%b: bool[]");
  EXPECT_TRUE(contains(apply(rules, *program), "%e = test_add(%c, %c) : i64[2]"));
}

TEST(Rules, that_apply_without_end_are_an_internal_error_with_their_location) {
  const RuleTable rules({{"swap", sum(x, y), sum(y, x)}});
  const auto program = program_of("%s = test_add(%a, %b) return %s");
  try {
    rules.apply(*program);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_TRUE(contains(error.message(), "rule 'swap' ("));
    EXPECT_TRUE(contains(error.message(), "rule_test.cpp:"));
  }
}

TEST(RuleWatch, is_called_after_every_rule) {
  const RuleTable rules({{"double", sum(x, x), x}});
  const auto program = program_of("%s = test_add(%a, %a) %t = test_add(%s, %s) return %t");
  std::vector<std::string> names;
  {
    const RuleWatch watch([&](const Rule& rule, const Program&) { names.emplace_back(rule.name); });
    EXPECT_TRUE(rules.apply(*program));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"double", "double"}));
  EXPECT_FALSE(rules.apply(*program));
}

}  // namespace
}  // namespace lathe

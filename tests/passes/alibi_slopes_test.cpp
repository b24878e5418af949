// SPDX-License-Identifier: MIT
#include "passes/analysis/alibi_slopes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "ir/parse.h"

namespace lathe {
namespace {

// Slopes of the result of a program whose parameter %p, i64[…, n], has positions along its last
// axis.
std::optional<std::vector<double>> slopes(const std::string& text) {
  const auto program = parse_program("program \"test\" stage imported {\n" + text + "\n}\n");
  const Module& main = program->main();
  const Value* positions = main.parameters().front().get();
  Linear counting{std::vector<int64_t>(static_cast<size_t>(positions->type().rank()), 0), 0};
  counting.steps.back() = 1;
  const AffineAnalysis flow(main, {{positions, AffineValue::index(counting)}});
  return alibi_slopes_of_scores(main.results().front(), flow);
}

TEST(AlibiSlopes, are_per_head_along_keys) {
  const auto found = slopes(R"(module @main(%p: i64[1, 1, 8]) {
  %x = cast(%p) {to = f32}
  %heads = literal f32[2, 1, 1] {-0.5, -0.25}
  %y = mul(%x, %heads)
  return %y as "y"
})");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, (std::vector<double>{-0.5, -0.25}));
}

TEST(AlibiSlopes, are_absent_if_one_position_is_broadcast_to_all_keys) {
  for (const char* op : {"add", "mul"}) {
    EXPECT_FALSE(slopes(fmt::format(R"(module @main(%p: i64[1, 1, 1]) {{
  %x = cast(%p) {{to = f32}}
  %two = literal f32[] {{2}}
  %far = mul(%x, %two)
  %one = literal f32[] {{0.5}}
  %shape = literal i64[3] {{1, 1, 8}}
  %half = expand(%one, %shape)
  %y = {}(%far, %half)
  return %y as "y"
}})",
                                    op))
                     .has_value())
        << op;
  }
}

TEST(AlibiSlopes, trace_each_value_once) {
  std::string text = R"(module @main(%p: f32[1, 1, 8]) {
  %c0 = literal f32[1, 1, 8] {1, 1, 1, 1, 1, 1, 1, 2}
)";
  for (int i = 1; i <= 20; ++i) text += fmt::format("  %c{} = mul(%c{}, %c{})\n", i, i - 1, i - 1);
  text += "  %y = mul(%p, %c20)\n  return %y as \"y\"\n}";
  EXPECT_FALSE(slopes(text).has_value());
}

}  // namespace
}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_analysis.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lathe

// SPDX-License-Identifier: MIT
// matmul_n_bits of what quantize_blocks makes, in any order.
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/parse.h"
#include "targets/compile.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

constexpr int64_t kDepth = 64, kColumns = 32;

// The zero points of these columns differ from the default.
Tensor product(std::string_view target, std::string_view quantised, std::string_view operands) {
  const std::string text =
      fmt::format(R"(program "columns" stage imported {{
  module @main(%x: f32[3, {0}]) {{
    %w = literal f32[{0}, {1}] {{{2}}}
    %q, %s, %z = deferred quantize_blocks(%w) {{{3}}}
    %s32 = cast(%s) {{to = f32}}
    %y = matmul_n_bits(%x, {4}) {{k = {0}, n = {1}, bits = 4, block_size = 32}}
    return %y as "y"
  }}
}})",
                  kDepth, kColumns, test::sines(kDepth * kColumns, 3), quantised, operands);
  return test::run_on_cosines(compile(parse_program(text), {.target = find_target(target)}),
                              {3, kDepth});
}

TEST(ColumnSource, HasTheValuesOfTheResultsThatAProductReads) {
  constexpr std::string_view kZeros = "block_size = 32, bits = 4";
  constexpr std::string_view kSymmetric = "block_size = 32, bits = 4, symmetric = true";
  const std::pair<std::string_view, std::string_view> cases[] = {
      {kZeros, "%q, %s, %z"},      // packed at once
      {kSymmetric, "%q, %s"},      // packed at once
      {kZeros, "%q, %s"},          // without its zero points
      {kZeros, "%q, %z, %s32"},    // exchanged
      {kZeros, "%q, %z, %z"},      // one of them twice
      {kZeros, "%q, %s32, %s32"},  //
  };
  for (const auto& [quantised, operands] : cases) {
    const Tensor expected = product("ref", quantised, operands);
    const Tensor got = product("cpu", quantised, operands);
    ASSERT_EQ(got.count(), 3 * kColumns);
    for (int64_t i = 0; i < got.count(); ++i) {
      const float e = expected.as<float>()[i];
      ASSERT_NEAR(got.as<float>()[i], e, 1e-4 * std::max(1.0F, std::abs(e)))
          << operands << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace lathe
#endif

// SPDX-License-Identifier: MIT
// matmul_n_bits of what quantize_blocks makes, in any order.
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "import/compiled/compiled_file.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "targets/compile.h"
#include "targets/save_program.h"
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

// Rows of a table, which a product also reads, quantised.
std::shared_ptr<const Plan> lookup(std::string_view target, std::string_view form, bool zeros) {
  const std::string text = fmt::format(
      R"(program "lookup" stage imported {{
  module @main(%x: f32[3, {0}]) {{
    %last = literal f32[] {{31}}
    %scaled = mul(%x, %last)
    %ids = cast(%scaled) {{to = i64}}
    %w = literal f32[{1}, {0}] {{{2}}}
    %rows = gather(%w, %ids) {{axis = 0}}
    %q, %s, %z = deferred quantize_blocks(%w) {{{3}, transposed = true}}
    %y = matmul_n_bits(%x, %q, %s{4}) {{k = {0}, n = {1}, block_size = 32, bits = {5}}}
    return %rows as "rows", %y as "y"
  }}
}})",
      kDepth, kColumns, test::sines(kDepth * kColumns, 3), form, zeros ? ", %z" : "",
      form.find("bits = 4") == std::string_view::npos ? 8 : 4);
  return compile(parse_program(text), {.target = find_target(target)});
}

TEST(ColumnSource, HasTheRowsThatALookupReads) {
  const Tensor table = test::run_on_cosines(
      compile(parse_program(fmt::format(R"(program "table" stage imported {{
  module @main(%x: f32[3, {0}]) {{
    %last = literal f32[] {{31}}
    %scaled = mul(%x, %last)
    %ids = cast(%scaled) {{to = i64}}
    %w = literal f32[{1}, {0}] {{{2}}}
    %rows = gather(%w, %ids) {{axis = 0}}
    return %rows as "rows"
  }}
}})",
                                        kDepth, kColumns, test::sines(kDepth * kColumns, 3))),
              {.target = find_target("ref")}),
      {3, kDepth});
  for (const auto& [form, zeros, tolerance] :
       {std::tuple{"block_size = 32, bits = 8", false, 0.017F},
        {"block_size = 32, bits = 4", true, 0.08F},
        {"block_size = 32, bits = 4, symmetric = true", false, 0.3F}}) {
    const std::shared_ptr<const Plan> plan = lookup("cpu", form, zeros);
    EXPECT_NE(print(*plan->program).find("gather_n_bits"), std::string::npos) << form;
    const Tensor rows = test::run_on_cosines(plan, {3, kDepth});
    // As the packed weights of a compiled file have them.
    std::string packed;
    save_program(*plan, {.target = find_target("cpu")},
                 [&](std::string_view bytes) { packed += bytes; });
    const auto file = CompiledFile::open("lookup.lathe", packed, nullptr);
    const Tensor stored = test::run_on_cosines(
        compile(file->program(kMainProgram), {.target = find_target("cpu")}), {3, kDepth});
    ASSERT_EQ(rows.count(), 3 * kDepth * kDepth);
    for (int64_t i = 0; i < rows.count(); ++i) {
      ASSERT_NEAR(rows.as<float>()[i], table.as<float>()[i], tolerance)
          << form << ", element " << i;
      ASSERT_EQ(stored.as<float>()[i], rows.as<float>()[i]) << form << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace lathe
#endif

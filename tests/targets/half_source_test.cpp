// SPDX-License-Identifier: MIT
// Products in f32 whose weights are bf16 or f16 behind deferred casts: packed in 16 bits.
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "import/compiled/compiled_file.h"
#include "ir/parse.h"
#include "targets/compile.h"
#include "targets/cpu/weight_store.h"
#include "targets/save_program.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

constexpr int64_t kDepth = 270, kColumns = 37;  // more than 16 KiB in 16 bits

std::shared_ptr<const Plan> plan_of(std::string_view target, std::string_view type,
                                    bool transposed) {
  const std::string stored = transposed ? fmt::format("{}, {}", kColumns, kDepth)
                                        : fmt::format("{}, {}", kDepth, kColumns);
  const std::string text =
      fmt::format(R"(program "halves" stage imported {{
  symbol n bound 0..*
  module @main(%x: f32[n, {0}]) {{
    %w = literal {1}[{2}] {{{3}}}
    %wide = deferred cast(%w) {{to = f32}}
    {4}
    %y = matmul(%x, {5})
    return %y as "y"
  }}
}})",
                  kDepth, type, stored, test::sines(kDepth * kColumns),
                  transposed ? "%t = deferred transpose(%wide)" : "", transposed ? "%t" : "%wide");
  return compile(parse_program(text), {.target = find_target(target)});
}

TEST(HalfSource, ProductsHoldSixteenBits) {
  for (const std::string_view type : {"bf16", "f16"}) {
    for (const bool transposed : {false, true}) {
      const auto reference = plan_of("ref", type, transposed);
      const auto plan = plan_of("cpu", type, transposed);
      bool holds = false;
      for (const Launch& launch : plan->modules.front().launches) {
        holds |= launch.kernel->detail().find(type) != std::string::npos;
      }
      EXPECT_TRUE(holds) << type;
      for (const int64_t rows : {1, 3, 40}) {
        const Tensor expected = test::run_on_cosines(reference, {rows, kDepth});
        const Tensor found = test::run_on_cosines(plan, {rows, kDepth});
        ASSERT_EQ(found.count(), rows * kColumns);
        for (int64_t i = 0; i < found.count(); ++i) {
          ASSERT_NEAR(found.as<float>()[i], expected.as<float>()[i], 2e-4)
              << type << (transposed ? ", transposed, " : ", ") << rows << " rows, element " << i;
        }
      }
    }
  }
}

TEST(HalfSource, CompiledFilesHoldSixteenBitsOnce) {
  for (const std::string_view type : {"bf16", "f16"}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", type, transposed ? ", transposed" : ""));
      const auto plan = plan_of("cpu", type, transposed);
      std::string bytes;
      const SavedSizes sizes = save_program(*plan, {.target = find_target("cpu")},
                                            [&](std::string_view more) { bytes += more; });
      constexpr int64_t kWidest = 64;  // columns of a panel
      EXPECT_GT(sizes.packed, 0);
      EXPECT_LE(sizes.packed, kDepth * kWidest * 2);
      EXPECT_EQ(sizes.constants, 0);
      EXPECT_EQ(sizes.stored_twice, 0);
      const auto file = CompiledFile::open("halves.lathe", bytes, nullptr);
      const auto opened = [&](std::string_view target) {
        return compile(file->program(kMainProgram), {.target = find_target(target)});
      };
      const int64_t packed = cpu::weights_packed();
      const auto again = opened("cpu");
      EXPECT_EQ(cpu::weights_packed(), packed);
      const auto reference = opened("ref");
      for (const int64_t rows : {1, 40}) {
        const Tensor expected = test::run_on_cosines(plan, {rows, kDepth});
        const Tensor found = test::run_on_cosines(again, {rows, kDepth});
        const Tensor other = test::run_on_cosines(reference, {rows, kDepth});
        ASSERT_EQ(found.count(), rows * kColumns);
        for (int64_t i = 0; i < found.count(); ++i) {
          ASSERT_EQ(found.as<float>()[i], expected.as<float>()[i])
              << rows << " rows, element " << i;
          ASSERT_NEAR(other.as<float>()[i], expected.as<float>()[i], 2e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe
#endif

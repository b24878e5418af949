// SPDX-License-Identifier: MIT
// Products in f32 whose weights are bf16 or f16 behind deferred casts: packed in 16 bits. Lookups
// in tables that products pack.
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "import/compiled/compiled_file.h"
#include "ir/parse.h"
#include "targets/compile.h"
#include "targets/cpu/weight_store.h"
#include "targets/save_program.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

constexpr int64_t kDepth = 270, kColumns = 37;  // more than 16 KiB in 16 bits

// What follows the product %y.
struct Tail {
  std::string_view text;
  std::string_view kernel;  // what its name ends with
};
constexpr Tail kNoTail{"", "matmul"};
constexpr Tail kTails[] = {
    kNoTail,
    {"%z = add(%y, %bias)", "+add"},
    {"%s = add(%y, %bias) %z = gelu(%s)", "+add+gelu"},
    {"%s = add(%y, %bias) %c = literal f32[] {0.25} %z = mul(%s, %c)", "+add+mul"}};

std::shared_ptr<const Plan> plan_of(std::string_view target, std::string_view type, bool transposed,
                                    const Tail& tail = kNoTail) {
  const std::string stored = transposed ? fmt::format("{}, {}", kColumns, kDepth)
                                        : fmt::format("{}, {}", kDepth, kColumns);
  const std::string text =
      fmt::format(R"(program "halves" stage imported {{
  symbol n bound 0..*
  module @main(%x: f32[n, {0}]) {{
    %w = literal {1}[{2}] {{{3}}}
    %wide = deferred cast(%w) {{to = f32}}
    {4}
    %bias = literal f32[{6}] {{{7}}}
    %y = matmul(%x, {5})
    {8}
    return {9} as "y"
  }}
}})",
                  kDepth, type, stored, test::sines(kDepth * kColumns),
                  transposed ? "%t = deferred transpose(%wide)" : "", transposed ? "%t" : "%wide",
                  kColumns, test::sines(kColumns, 2), tail.text, tail.text.empty() ? "%y" : "%z");
  return compile(parse_program(text), {.target = find_target(target)});
}

struct HalvesCase {
  std::string_view type;
  bool transposed;
  Tail tail;
};
std::vector<HalvesCase> cases_of_halves() {
  std::vector<HalvesCase> cases;
  for (const std::string_view type : {"bf16", "f16"}) {
    for (const Tail& tail : kTails) {
      for (const bool transposed : {false, true}) cases.push_back({type, transposed, tail});
    }
  }
  return cases;
}

TEST(PanelSource, ProductsHoldSixteenBits) {
  for (const auto& [type, transposed, tail] : cases_of_halves()) {
    const auto reference = plan_of("ref", type, transposed, tail);
    const auto plan = plan_of("cpu", type, transposed, tail);
    bool holds = false;
    for (const Launch& launch : plan->modules.front().launches) {
      if (launch.kernel == nullptr || !launch.kernel->name().ends_with(tail.kernel)) continue;
      holds |= launch.kernel->detail().find(type) != std::string::npos;
    }
    EXPECT_TRUE(holds) << type << tail.kernel;
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

TEST(PanelSource, CompiledFilesHoldSixteenBitsOnce) {
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

// A table [kRows, kWidth] of which a lookup reads rows, and a product that has them as columns.
constexpr int64_t kWidth = 271, kRows = 69, kJoinedRows = 128;

struct TiedCase {
  std::string_view type;
  std::string_view head;  // of %table, %wide: the same in f32
  int64_t rows = kRows;
};

constexpr std::string_view kPlain = "%t = deferred transpose(%wide) %y = matmul(%x, %t)";
constexpr std::string_view kRegion =
    "%t = deferred transpose(%wide) %m = matmul(%x, %t) %y = relu(%m)";
constexpr std::string_view kGemm = "%y = gemm(%x, %wide) {trans_b = true}";
constexpr std::string_view kBf16 =
    "%t = deferred transpose(%wide) %y = matmul(%x, %t) {compute_type = \"bf16\"}";
constexpr std::string_view kJoined = R"(
    %other = deferred cast(%more) {to = f32}
    %all = deferred concat(%other, %wide) {axis = 0}
    %t = deferred transpose(%all)
    %y = matmul(%x, %t))";

const TiedCase kTied[] = {{"bf16", kPlain},
                          {"f16", kPlain},
                          {"f32", kPlain},
                          {"bf16", kRegion},
                          {"f32", kRegion},
                          {"bf16", kGemm},
                          {"f32", kGemm},
                          {"bf16", kBf16},
                          {"bf16", kJoined, kJoinedRows},
                          {"f16", kJoined, kJoinedRows}};

std::shared_ptr<const Plan> tied_plan(std::string_view target, const TiedCase& c) {
  const bool halves = c.type != "f32";
  std::string head(c.head);
  if (!halves) {
    for (size_t at = 0; (at = head.find("%wide", at)) != std::string::npos;) {
      head.replace(at, 5, "%table");
    }
  }
  const std::string text = fmt::format(
      R"(program "tied" stage imported {{
  symbol n bound 0..*
  module @main(%x: f32[n, {0}]) {{
    %last = literal f32[] {{{1}}}
    %scaled = mul(%x, %last)
    %ids = cast(%scaled) {{to = i64}}
    %table = literal {2}[{3}, {0}] {{{4}}}
    {5}
    {6}
    %found = gather(%table, %ids) {{axis = 0}}
    {7}
    {8}
    return %rows as "rows", %y as "y"
  }}
}})",
      kWidth, c.rows - 1, c.type, c.rows, test::sines(c.rows * kWidth),
      c.head == kJoined ? fmt::format("%more = literal {}[64, {}] {{{}}}", c.type, kWidth,
                                      test::sines(64 * kWidth, 1))
                        : "",
      halves ? "%wide = deferred cast(%table) {to = f32}" : "",
      halves ? "%rows = cast(%found) {to = f32}" : "%rows = identity(%found)", head);
  return compile(parse_program(text), {.target = find_target(target)});
}

bool reads_panels(const Plan& plan) {
  return std::ranges::any_of(plan.modules.front().launches, [](const Launch& launch) {
    return launch.kernel != nullptr && launch.kernel->detail() == "rows of packed weights";
  });
}

std::vector<Tensor> run_tied(const std::shared_ptr<const Plan>& plan, int64_t rows) {
  const Tensor x(ElementType::f32, {rows, kWidth});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = std::cos(static_cast<float>(i));
  std::vector<Tensor> results;
  for (const Box& box : Session(plan).run(std::vector<Box>{Box{x}})) {
    results.push_back(box.tensor());
  }
  return results;
}

void expect_near(const Tensor& found, const Tensor& expected, float tolerance) {
  ASSERT_EQ(found.dims(), expected.dims());
  for (int64_t i = 0; i < found.count(); ++i) {
    ASSERT_NEAR(found.as<float>()[i], expected.as<float>()[i], tolerance) << "element " << i;
  }
}

TEST(PanelSource, LookupsReadThePanelsOfATiedHead) {
  for (const TiedCase& c : kTied) {
    SCOPED_TRACE(fmt::format("{} under {}", c.type, c.head));
    const auto reference = tied_plan("ref", c);
    const int64_t packed = cpu::weights_packed();
    const auto plan = tied_plan("cpu", c);
    EXPECT_TRUE(reads_panels(*plan));
    EXPECT_LE(cpu::weights_packed(), packed + 1);
    for (const int64_t rows : {0, 1, 5, 40}) {
      const std::vector<Tensor> expected = run_tied(reference, rows), found = run_tied(plan, rows);
      expect_near(found.at(0), expected.at(0), 0);
      // bf16 rounds x.
      expect_near(found.at(1), expected.at(1), c.head == kBf16 ? 0.5F : 5e-4F);
    }
  }
}

TEST(PanelSource, CompiledFilesHoldATiedTableOnce) {
  for (const TiedCase& c : kTied) {
    SCOPED_TRACE(fmt::format("{} under {}", c.type, c.head));
    const auto plan = tied_plan("cpu", c);
    std::string bytes;
    const SavedSizes sizes = save_program(*plan, {.target = find_target("cpu")},
                                          [&](std::string_view more) { bytes += more; });
    EXPECT_GT(sizes.packed, 0);
    EXPECT_LT(sizes.constants, kWidth);
    EXPECT_EQ(sizes.stored_twice, 0);
    const auto file = CompiledFile::open("tied.lathe", bytes, nullptr);
    const auto opened = [&](std::string_view target) {
      return compile(file->program(kMainProgram), {.target = find_target(target)});
    };
    const int64_t packed = cpu::weights_packed();
    const auto again = opened("cpu");
    EXPECT_TRUE(reads_panels(*again));
    EXPECT_EQ(cpu::weights_packed(), packed);
    const std::vector<Tensor> expected = run_tied(plan, 5), found = run_tied(again, 5);
    expect_near(found.at(0), expected.at(0), 0);
    expect_near(found.at(1), expected.at(1), 0);
    expect_near(run_tied(opened("ref"), 5).at(0), expected.at(0), 0);
  }
}

TEST(PanelSource, LookupsDoNotReadRoundedPanels) {
  constexpr TiedCase kRounded{"f32", kBf16};
  const auto plan = tied_plan("cpu", kRounded);
  EXPECT_FALSE(reads_panels(*plan));
  const std::vector<Tensor> expected = run_tied(tied_plan("ref", kRounded), 2);
  expect_near(run_tied(plan, 2).at(0), expected.at(0), 0);
}

TEST(PanelSource, IndicesOutOfRangeAreErrors) {
  const auto plan = tied_plan("cpu", kTied[0]);
  const Tensor x(ElementType::f32, {1, kWidth});
  for (int64_t i = 0; i < kWidth; ++i) x.as<float>()[i] = 1.5F;
  Session session(plan);
  try {
    session.run(std::vector<Box>{Box{x}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("index 102 is out of range"), std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace lathe
#endif

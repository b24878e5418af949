// SPDX-License-Identifier: MIT
// Products of one value become one whose kernel packs the weights of all: matrices of 16 bits, and
// rows of a GGUF type.
#if defined(__x86_64__)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "import/compiled/compiled_file.h"
#include "ir/ops.h"
#include "ir/parse.h"
#include "targets/compile.h"
#include "targets/cpu/weight_store.h"
#include "targets/save_program.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

constexpr int64_t kDepth = 64;

// swiglu of two products; `left` and `right`: what their second operands are made of.
std::string gates(std::string_view left, std::string_view right) {
  return fmt::format(R"(program "gates" stage imported {{
  symbol n bound 0..*
  module @main(%x: f32[n, {}]) {{
    {}
    {}
    %y = swiglu(%a, %b)
    return %y as "y"
  }}
}})",
                     kDepth, left, right);
}

std::string halves(std::string_view result, std::string_view type, int64_t columns, bool transposed,
                   double centre) {
  const std::string dims =
      transposed ? fmt::format("{}, {}", columns, kDepth) : fmt::format("{}, {}", kDepth, columns);
  return fmt::format(R"(%w{0} = literal {1}[{2}] {{{3}}}
    %v{0} = deferred cast(%w{0}) {{to = f32}}
    {4}
    %{0} = matmul(%x, {5}{0}))",
                     result, type, dims, test::sines(columns * kDepth, centre),
                     transposed ? fmt::format("%t{0} = deferred transpose(%v{0})", result) : "",
                     transposed ? "%t" : "%v");
}

// Q4_1: f16 scale and minimum, 32 codes.
std::string blocks(std::string_view result, int64_t columns, int seed) {
  constexpr int64_t kBlocks = kDepth / 32, kBytes = 20;
  std::string bytes;
  for (int64_t i = 0; i < columns * kBlocks; ++i) {
    bytes += fmt::format("{}0, {}, 0, {}", bytes.empty() ? "" : ", ", 0x28 + (i + seed) % 3,
                         0xb4 + i % 2);
    for (int64_t j = 4; j < kBytes; ++j)
      bytes += fmt::format(", {}", (i * 31 + j * 57 + seed) % 256);
  }
  return fmt::format(R"(%w{0} = literal u8[{1}, {2}] {{{3}}}
    %q{0}, %s{0}, %z{0} = deferred quantize_blocks(%w{0}) {{type = "Q4_1"}}
    %{0} = matmul_n_bits(%x, %q{0}, %s{0}, %z{0}) {{k = {4}, n = {1}, bits = 4, block_size = 32}})",
                     result, columns, kBlocks * kBytes, bytes, kDepth);
}

std::shared_ptr<const Plan> plan_of(std::string_view target, const std::string& text) {
  return compile(parse_program(text), {.target = find_target(target)});
}

int products_of(const Plan& plan) {
  int count = 0;
  for (const Launch& launch : plan.modules.front().launches) {
    if (launch.kernel == nullptr || launch.instruction == nullptr) continue;
    const auto multiplies = [](const Instruction& each) {
      return is_any_of(each.op(), {&ops::matmul, &ops::matmul_n_bits});
    };
    count += multiplies(*launch.instruction) ? 1 : 0;
    if (launch.instruction->op() != ops::region) continue;
    const auto& body = launch.instruction->bodies()[0]->instructions();
    count += static_cast<int>(
        std::ranges::count_if(body, [&](const auto& step) { return multiplies(*step); }));
  }
  return count;
}

// The kernels of the plan that compute, by name.
std::vector<std::string> kernels_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const Launch& launch : plan.modules.front().launches) {
    if (launch.kernel != nullptr && launch.kind == LaunchKind::kernel) {
      names.emplace_back(launch.kernel->name());
    }
  }
  return names;
}

// The results of ref, which joins nothing.
void expect_results(const std::shared_ptr<const Plan>& plan, const std::string& text) {
  const auto reference = plan_of("ref", text);
  for (const int64_t rows : {1, 3, 40}) {
    const Tensor expected = test::run_on_cosines(reference, {rows, kDepth});
    const Tensor found = test::run_on_cosines(plan, {rows, kDepth});
    ASSERT_EQ(found.dims(), expected.dims());
    for (int64_t i = 0; i < found.count(); ++i) {
      const float e = expected.as<float>()[i];
      ASSERT_NEAR(found.as<float>()[i], e, 1e-4 * std::max(1.0F, std::abs(e)))
          << rows << " rows, element " << i;
    }
  }
}

TEST(JoinedProducts, OfSixteenBitsAreOne) {
  for (const std::string_view type : {"bf16", "f16"}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", type, transposed ? ", transposed" : ""));
      const std::string text =
          gates(halves("a", type, 192, transposed, 0), halves("b", type, 192, transposed, 0.5));
      const auto plan = plan_of("cpu", text);
      EXPECT_EQ(products_of(*plan), 1);
      const auto holds = [&](const Launch& launch) {
        return launch.kernel != nullptr && launch.kernel->detail().find(type) != std::string::npos;
      };
      EXPECT_TRUE(std::ranges::any_of(plan->modules.front().launches, holds));
      expect_results(plan, text);
    }
  }
}

TEST(JoinedProducts, OfBlocksAreOne) {
  const std::string text = gates(blocks("a", 128, 1), blocks("b", 128, 2));
  const auto plan = plan_of("cpu", text);
  EXPECT_EQ(products_of(*plan), 1);
  EXPECT_EQ(kernels_of(*plan), std::vector<std::string>{"cpu.matmul_n_bits+swiglu"});
  expect_results(plan, text);
}

// Other readers of the halves, and more of them, have a launch of their own.
TEST(JoinedProducts, EndWithSwigluAlone) {
  const std::string both = blocks("a", 128, 1) + "\n" + blocks("b", 128, 2);
  const std::string rest[] = {"%z = literal f32[] {0}\n%r = mul(%a, %b)\n%s = add(%r, %z)",
                              "%r = swiglu(%b, %a)\n%s = relu(%r)"};
  const int launches[] = {2, 2};
  for (size_t i = 0; i < std::size(rest); ++i) {
    SCOPED_TRACE(rest[i]);
    const std::string text = fmt::format(R"(program "gates" stage imported {{
  symbol n bound 0..*
  module @main(%x: f32[n, {}]) {{
    {}
    {}
    return %s as "y"
  }}
}})",
                                         kDepth, both, rest[i]);
    const auto plan = plan_of("cpu", text);
    EXPECT_EQ(products_of(*plan), 1);
    EXPECT_EQ(std::ssize(kernels_of(*plan)), launches[i]);
    expect_results(plan, text);
  }
}

TEST(JoinedProducts, TakeSummands) {
  const auto with = [](std::string_view product, std::string_view result, int64_t columns) {
    return fmt::format(R"({0}
    %c{1} = literal f32[{2}] {{{3}}}
    %{1} = add(%p{1}, %c{1}))",
                       product, result, columns, test::sines(columns, 0.5));
  };
  const std::string bytes[] = {with(blocks("pa", 128, 1), "a", 128),
                               with(blocks("pb", 128, 2), "b", 128)};
  const std::string bf16[] = {with(halves("pa", "bf16", 128, true, 0), "a", 128),
                              with(halves("pb", "bf16", 128, true, 0.5), "b", 128)};
  const std::string texts[] = {gates(bytes[0], bytes[1]), gates(bf16[0], bf16[1]),
                               gates(bytes[0], blocks("b", 128, 2))};
  const int products[] = {1, 1, 2};
  for (size_t i = 0; i < std::size(texts); ++i) {
    SCOPED_TRACE(i);
    const auto plan = plan_of("cpu", texts[i]);
    EXPECT_EQ(products_of(*plan), products[i]);
    expect_results(plan, texts[i]);
  }
}

TEST(JoinedProducts, StayApartWhereTheyDiffer) {
  const std::string bf16 = halves("a", "bf16", 128, true, 0);
  const std::string texts[] = {
      gates(bf16, halves("b", "f16", 128, true, 0)),
      gates(halves("a", "bf16", 96, true, 0), halves("b", "bf16", 96, true, 0.5)),
      gates(bf16, blocks("b", 128, 1)),
      gates(bf16, "%b = mul(%a, %a)"),
  };
  const int products[] = {2, 2, 2, 1};
  for (size_t i = 0; i < std::size(texts); ++i) {
    SCOPED_TRACE(i);
    const auto plan = plan_of("cpu", texts[i]);
    EXPECT_EQ(products_of(*plan), products[i]);
    expect_results(plan, texts[i]);
  }
}

TEST(JoinedProducts, OfSixteenBitsLieInCompiledFilesOnce) {
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    const std::string text =
        gates(halves("a", "bf16", 192, transposed, 0), halves("b", "bf16", 192, transposed, 0.5));
    const auto plan = plan_of("cpu", text);
    std::string bytes;
    const SavedSizes sizes = save_program(*plan, {.target = find_target("cpu")},
                                          [&](std::string_view more) { bytes += more; });
    EXPECT_EQ(sizes.packed, 2 * 192 * kDepth * 2);
    EXPECT_EQ(sizes.constants, 0);
    EXPECT_EQ(sizes.stored_twice, 0);
    const auto file = CompiledFile::open("gates.lathe", bytes, nullptr);
    const int64_t packed = cpu::weights_packed();
    const auto again = compile(file->program(kMainProgram), {.target = find_target("cpu")});
    EXPECT_EQ(cpu::weights_packed(), packed);
    EXPECT_EQ(products_of(*again), 1);
    expect_results(again, text);
    const auto reference = compile(file->program(kMainProgram), {.target = find_target("ref")});
    expect_results(reference, text);
  }
}

// A decoder's attention to paged caches, with these products %q, %k and %v of %x.
std::string attention(const std::string& parts) {
  return fmt::format(R"(program "attention" stage imported {{
  symbol page_length bound 1..*
  symbol pages length 0..*
  symbol s bound 1..*
  symbol sequences bound 0..*
  symbol table_pages bound 0..*
  state @past.k : f32[pages, 1, page_length, 64] append axis 0 paged input "past.k" output "present.k"
  state @past.v : f32[pages, 1, page_length, 64] append axis 0 paged input "past.v" output "present.v"
  module @main(%x: f32[1, s, {}], %bounds: i32[sequences + 1], %past: i32[sequences], %table: i32[sequences, table_pages]) {{
    %kc = state_read() {{state = "past.k"}}
    %vc = state_read() {{state = "past.v"}}
    {}
    %y, %k2, %v2 = sequence_attention(%q, %k, %v, %kc, %vc, %bounds, %past, %table) {{kv_num_heads = 1, num_heads = 1}}
    return %y as "y"
  }}
}})",
                     kDepth, parts);
}

// The number of products, and the columns of the query, keys and values of the attention; 0: none.
std::vector<int64_t> joined(const std::string& text) {
  const auto program = parse_program(text);
  run_pipeline(*program, {.target = find_target("cpu")}, Stage::optimised);
  std::vector<int64_t> found = {0};
  for (const auto& instruction : program->main().instructions()) {
    found[0] += is_any_of(instruction->op(), {&ops::matmul, &ops::matmul_n_bits}) ? 1 : 0;
    if (!(instruction->op() == ops::sequence_attention)) continue;
    for (size_t i = 0; i < 3; ++i) {
      const Value* operand = instruction->operands()[i];
      found.push_back(operand == nullptr ? 0 : *operand->type().dims->back().constant());
    }
  }
  return found;
}

TEST(JoinedProducts, OfAttentionAreItsQuery) {
  const std::string parts =
      fmt::format("{}\n{}\n{}", halves("q", "bf16", 64, true, 0),
                  halves("k", "bf16", 64, true, 0.25), halves("v", "bf16", 64, true, 0.5));
  EXPECT_EQ(joined(attention(parts)), (std::vector<int64_t>{1, 3 * 64, 0, 0}));
}

TEST(JoinedProducts, OfAttentionAreItsQueryAndKeys) {
  const std::string parts = fmt::format("{}\n{}\n{}", blocks("q", 64, 1), blocks("k", 64, 2),
                                        halves("v", "bf16", 64, true, 0.5));
  EXPECT_EQ(joined(attention(parts)), (std::vector<int64_t>{2, 64, 64, 64}));
}

}  // namespace
}  // namespace lathe
#endif

// SPDX-License-Identifier: MIT
// moe and qmoe on cpu beside ref.
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "targets/cpu/expert_matrices.h"

namespace lathe {
namespace {

constexpr int64_t kExperts = 5, kHidden = 64;

struct Case {
  std::string name;
  std::string op;
  // After x and the router: types of literals (f32s: scales, small and positive; u8q20: bytes of
  // blocks of 20 that begin with an f16 scale and an f16 minimum; i32: orders), _ or values.
  std::string operands;
  std::string attributes;
  std::string extra = "";  // parameters of main
};

void PrintTo(const Case& row, std::ostream* to) { *to << row.name; }

float wave(int64_t i) { return std::sin(static_cast<float>(i) * 0.61F); }

// Each type of the operands becomes a literal.
std::unique_ptr<Program> program_of(const Case& row) {
  std::string literals, operands;
  int count = 0;
  std::string rest = row.operands;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find("; "), rest.size());
    const std::string type = rest.substr(0, end);
    rest.erase(0, end + 2);
    operands += ", ";
    if (type.find('[') == std::string::npos) {
      operands += type;
      continue;
    }
    int64_t elements = 1;
    for (size_t at = type.find('['); at < type.find(']');
         at = std::min(type.find(',', at + 1), type.find(']'))) {
      elements *= std::stoll(type.substr(at + 1));
    }
    const bool scales = type.starts_with("f32s");
    const int64_t block = type.starts_with("u8q") ? std::stoll(type.substr(3)) : 0;
    constexpr std::array<int, 4> kFactors = {0x00, 0x24, 0x00, 0xb0};  // 1/64, -1/8
    std::string values;
    for (int64_t i = 0; i < elements; ++i) {
      const float value = wave(i + 1000 * count);
      values += i == 0 ? "" : ", ";
      if (block > 0 && i % block < 4) {
        values += std::to_string(kFactors[static_cast<size_t>(i % block)]);
        continue;
      }
      if (type.front() == 'i') {
        values += fmt::format("{}", (7 * i + i / kHidden) % kHidden);
        continue;
      }
      values += type.front() == 'u' ? fmt::format("{}", (i * 37 + i / 7 * 11 + count) % 256)
                                    : fmt::format("{}", scales ? 0.02F + 0.01F * value : value);
    }
    const std::string element = scales                ? "f32"
                                : type.front() == 'u' ? "u8"
                                                      : type.substr(0, type.find('['));
    literals += fmt::format("    %l{} = literal {}{} {{{}}}\n", count, element,
                            type.substr(type.find('[')), values);
    operands += fmt::format("%l{}", count++);
  }
  return parse_program(fmt::format(
      "program \"experts\" stage imported {{\n  symbol n bound 1..*\n"
      "  module @main(%x: f32[n, {}], %r: f32[n, {}]{}) {{\n{}    %y = {}(%x, %r{}) {{{}}}\n"
      "    return %y as \"y\"\n  }}\n}}",
      kHidden, kExperts, row.extra, literals, row.op, operands, row.attributes));
}

Tensor activations(Dims dims, int64_t first) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.as<float>()[i] = wave(3 * i * i + first);
  return tensor;
}

std::vector<Box> inputs(int64_t tokens, const Case& row) {
  std::vector<Box> all{Box{activations({tokens, kHidden}, 1)},
                       Box{activations({tokens, kExperts}, 7)}};
  if (!row.extra.empty()) all.emplace_back(activations({tokens, kExperts}, 5));
  return all;
}

std::vector<float> run(const Case& row, std::string_view target, const std::vector<Box>& arguments,
                       int threads = 2) {
  ThreadPool pool(threads);
  const auto plan = compile(program_of(row), {.target = find_target(target)});
  EXPECT_EQ(plan->modules.front().launches.front().kernel->name(),
            fmt::format("{}.{}", target, row.op));
  Session session(plan, {.pool = &pool, .warn = {}});
  const std::vector<Box> found = session.run(arguments);
  const auto values = found[0].tensor().elements<float>();
  return {values.begin(), values.end()};
}

class Experts : public testing::TestWithParam<Case> {};

TEST_P(Experts, AgreeWithTheReference) {
  for (const int64_t tokens : {1, 3, 41}) {
    const std::vector<Box> arguments = inputs(tokens, GetParam());
    const std::vector<float> expected = run(GetParam(), "ref", arguments);
    const std::vector<float> found = run(GetParam(), "cpu", arguments);
    ASSERT_EQ(found.size(), expected.size());
    const float largest = std::abs(
        *std::ranges::max_element(expected, {}, [](float value) { return std::abs(value); }));
    ASSERT_GT(largest, 0.001F);
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-5F * largest) << "element " << i << " of " << tokens;
    }
  }
}

TEST_P(Experts, TokensDoNotDependOnOthers) {
  const std::vector<Box> arguments = inputs(29, GetParam());
  const std::vector<float> all = run(GetParam(), "cpu", arguments);
  EXPECT_EQ(all, run(GetParam(), "cpu", arguments, 1));
  for (const int64_t token : {0, 17, 28}) {
    std::vector<Box> one;
    for (const Box& box : arguments) {
      const Tensor& from = box.tensor();
      const int64_t size = from.count() / 29;
      Tensor row(ElementType::f32, {1, size});
      std::copy_n(from.as<float>() + token * size, size, row.as<float>());
      one.emplace_back(std::move(row));
    }
    const std::vector<float> alone = run(GetParam(), "cpu", one);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + token * kHidden));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Experts,
    testing::Values(
        Case{"silu_with_fc3", "moe",
             "f32[5, 48, 64]; f32[5, 48]; f32[5, 64, 48]; f32[5, 64]; f32[5, 48, 64]; f32[5, 48]",
             R"(k = 2, activation_type = "silu", normalize_routing_weights = true)"},
        Case{"blocks_apart", "qmoe",
             "u8q20[5, 64, 40]; _; f32[5, 64]; u8q18[5, 64, 36]; _; f32[5, 64]; u8q20[5, 64, 40]",
             R"(k = 2, activation_type = "swiglu", compute_type = "int8", fc1_type = "Q4_1",
                fc2_type = "Q4_0", fc3_type = "Q4_1")"},
        Case{"blocks_joined", "qmoe", "u8q18[5, 64, 36]; _; _; u8q20[5, 64, 20]",
             R"(k = 3, activation_type = "swiglu", swiglu_fusion = 2, fc1_type = "Q4_0",
                fc2_type = "Q4_1")"},
        Case{"bf16_with_scales", "moe",
             "bf16[5, 96, 64]; f32[5, 96]; f16[5, 64, 48]; _; _; _; f32s[5]",
             R"(k = 3, activation_type = "swiglu", swiglu_fusion = 2)"},
        Case{"f16_with_fc3", "moe", "f16[5, 48, 64]; _; bf16[5, 64, 48]; _; f16[5, 48, 64]",
             R"(k = 2, activation_type = "silu")"},
        Case{
            "ordered_with_scales", "qmoe",
            "u8[5, 64, 32]; f32s[5, 64, 2]; f32[5, 64]; u8[5, 64, 16]; f32s[5, 64, 1]; _; "
            "_; _; _; u8[5, 64]; u8[5, 64]; _; _; f32s[5]; i32[5, 64]",
            R"(k = 2, activation_type = "swiglu", swiglu_fusion = 2, block_size = 32, compute_type = "int8")"},
        Case{"relu", "moe", "f32[5, 48, 64]; _; f32[5, 64, 48]", "k = 1"},
        Case{"alternating", "moe", "f32[5, 96, 64]; f32[5, 96]; f32[5, 64, 48]; _",
             R"(k = 3, activation_type = "swiglu", swiglu_fusion = 1, activation_alpha = 1.702,
                activation_beta = 1.0, swiglu_limit = 2.0)"},
        Case{"halves", "moe", "f32[5, 96, 64]; f32[5, 96]; f32[5, 64, 48]; f32[5, 64]",
             R"(k = 2, activation_type = "geglu", swiglu_fusion = 2)"},
        Case{"four_bits", "qmoe", "u8[5, 48, 32]; f32s[5, 48]; _; u8[5, 64, 24]; f32s[5, 64]",
             R"(k = 2, activation_type = "gelu")"},
        Case{
            "four_bits_of_blocks", "qmoe",
            "u8[5, 64, 32]; f32s[5, 64, 2]; f32[5, 64]; u8[5, 64, 16]; f32s[5, 64, 1]; f32[5, 64]; "
            "_; _; _; u8[5, 64]; u8[5, 64]",
            R"(k = 2, activation_type = "swiglu", swiglu_fusion = 1, block_size = 32)"},
        Case{"eight_bits_with_fc3", "qmoe",
             "u8[5, 47, 64]; f32s[5, 47]; f32[5, 47]; u8[5, 64, 47]; f32s[5, 64]; f32[5, 64]; "
             "u8[5, 47, 64]; f32s[5, 47]; _; u8[5, 47]; u8[5, 64]; u8[5, 47]; %m",
             R"(k = 4, activation_type = "silu", expert_weight_bits = 8)", ", %m: f32[n, 5]"},
        Case{
            "int8_activations", "qmoe",
            "u8[5, 64, 32]; f32s[5, 64, 2]; f32[5, 64]; u8[5, 64, 16]; f32s[5, 64, 1]; f32[5, 64]; "
            "_; _; _; u8[5, 64]; u8[5, 64]",
            R"(k = 2, activation_type = "swiglu", swiglu_fusion = 1, block_size = 32, compute_type = "int8")"},
        Case{"two_bits", "qmoe",
             "u8[5, 128, 16]; f32s[5, 128, 4]; _; u8[5, 64, 16]; f32s[5, 64, 4]",
             R"(k = 2, activation_type = "swiglu", swiglu_fusion = 2, block_size = 16,
                expert_weight_bits = 2)"}),
    [](const auto& row) { return row.param.name; });

TEST(ExpertsOfSixteenBits, AreHeldInSixteenBits) {
  if (!cpu::best_isa()) GTEST_SKIP() << "this processor has none of the instruction sets";
  const auto bytes = [](ElementType type) {
    const Tensor weights(type, {3, 96, 64});
    std::memset(weights.data(), 0, static_cast<size_t>(weights.byte_size()));
    const cpu::ExpertWeights part{.weights = &weights};
    return cpu::ExpertMatrices({.experts = 3, .inputs = 64}, {&part, 1}, cpu::ExpertRows::as_stored,
                               cpu::best_isa().value())
        .bytes();
  };
  EXPECT_EQ(bytes(ElementType::bf16), 3 * 96 * 64 * 2);
  EXPECT_EQ(bytes(ElementType::f16), 3 * 96 * 64 * 2);
  EXPECT_EQ(bytes(ElementType::f32), 3 * 96 * 64 * 4);
}

std::string made_literal(std::string_view name, std::string_view type, const Dims& dims) {
  std::string values;
  for (int64_t i = 0; i < element_count(dims); ++i) {
    values +=
        fmt::format("{}{}", i == 0 ? "" : ", ", wave(i + std::ssize(name) * 77 + name.back()));
  }
  return fmt::format("    %{} = literal {}[{}] {{{}}}\n", name, type, fmt::join(dims, ", "),
                     values);
}

// A matrix of `columns` rows of each expert, joined of parts that may be transposed or widened.
std::string joined_experts(std::string_view name, std::string_view type, int64_t rows,
                           int64_t columns, bool transposed) {
  const int64_t outer = transposed ? columns : rows, inner = transposed ? rows : columns;
  std::string text, parts;
  for (int64_t e = 0; e < kExperts; ++e) {
    const std::string part = fmt::format("{}{}", name, e);
    text += made_literal(part, type, {1, outer, inner});
    parts += fmt::format("{}%{}", e == 0 ? "" : ", ", part);
  }
  text += fmt::format("    %{}_all = deferred concat({}) {{axis = 0}}\n", name, parts);
  const std::string all = fmt::format("%{}_all", name);
  const std::string last = transposed
                               ? fmt::format("transpose({}) {{permutation = [0, 2, 1]}}", all)
                           : type == "f32" ? fmt::format("concat({}) {{axis = 0}}", all)
                                           : fmt::format("cast({}) {{to = f32}}", all);
  return text + fmt::format("    %{} = deferred {}\n", name, last);
}

TEST(ExpertsOfDeferredParts, ArePackedFromWhereTheyLie) {
  for (const std::string_view type : {"bf16", "f16", "f32"}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", type, transposed ? ", transposed" : ""));
      const std::string text = fmt::format(
          "program \"experts\" stage imported {{\n  symbol n bound 1..*\n"
          "  module @main(%x: f32[n, {}], %r: f32[n, {}]) {{\n{}{}{}"
          "    %y = moe(%x, %r, %gate, _, %down, _, %value) {{k = 2, activation_type = "
          "\"swiglu\"}}\n    return %y as \"y\"\n  }}\n}}",
          kHidden, kExperts, joined_experts("gate", type, 48, kHidden, transposed),
          joined_experts("value", type, 48, kHidden, transposed),
          joined_experts("down", type, kHidden, 48, transposed));
      const auto run_on = [&](std::string_view target) {
        const auto plan = compile(parse_program(text), {.target = find_target(target)});
        bool holds = false;
        for (const Launch& launch : plan->modules.front().launches) {
          holds |= launch.kernel != nullptr && launch.kernel->name() == "cpu.moe" &&
                   (type == "f32" || launch.kernel->detail().find(
                                         fmt::format("of {} packed", type)) != std::string::npos);
        }
        EXPECT_EQ(holds, target == "cpu");
        const bool evaluates = std::ranges::any_of(plan->literals, [](const Tensor& literal) {
          return literal.rank() == 3 && literal.dims()[0] == kExperts && literal.is_dense();
        });
        EXPECT_EQ(evaluates, target == "ref");
        const std::vector<Box> arguments{Box{activations({7, kHidden}, 1)},
                                         Box{activations({7, kExperts}, 7)}};
        const std::vector<Box> found = Session(plan).run(arguments);
        const auto values = found[0].tensor().elements<float>();
        return std::vector<float>(values.begin(), values.end());
      };
      const std::vector<float> expected = run_on("ref"), found = run_on("cpu");
      ASSERT_EQ(found.size(), static_cast<size_t>(7 * kHidden));
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-4) << i;
    }
  }
}

TEST(ExpertsOfSmallBlocks, RunOnTheReference) {
  const Case row{"", "qmoe", "u8[5, 48, 32]; f32s[5, 48, 8]; _; u8[5, 64, 24]; f32s[5, 64, 6]",
                 R"(k = 2, activation_type = "gelu", block_size = 8)"};
  const auto plan = compile(program_of(row), {.target = find_target("cpu")});
  const Launch& launch = plan->modules.front().launches.front();
  EXPECT_EQ(launch.kernel->name(), "ref.qmoe");
  EXPECT_EQ(launch.reason, "blocks of 8 elements, supported: powers of two from 16");
}

}  // namespace
}  // namespace lathe
#endif

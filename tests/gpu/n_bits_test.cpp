// SPDX-License-Identifier: MIT
// Products with weights of few bits: strided weights, columns and depths of more than one wave.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

Tensor codes_of(Dims dims) {
  Tensor codes(ElementType::u8, std::move(dims));
  uint8_t code = 7;
  for (uint8_t& x : codes.elements<uint8_t>()) x = code = static_cast<uint8_t>(code * 37 + 11);
  return codes;
}

Tensor rising(Dims dims, float first, float step) {
  Tensor values(ElementType::f32, std::move(dims));
  for (float& x : values.elements<float>()) x = first += step;
  return values;
}

Tensor between_0_and_1(Dims dims) {
  Tensor values(ElementType::f32, std::move(dims));
  float value = 0.3F;
  for (float& x : values.elements<float>()) x = value = 3.7F * value * (1 - value);
  return values;
}

// Results differ by `relative` of an element, and by `absolute`, at most.
void expect_as_ref(const std::string& text, const std::vector<Box>& inputs, double relative,
                   double absolute) {
  Session reference(compile(parse_program(text), {.target = find_target("ref")}));
  const Tensor expected = reference.run(inputs)[0].tensor();
  for (const auto& target : gpu_host_targets()) {
    Session session(compile(parse_program(text), {.target = target}));
    const Tensor found = session.run(inputs)[0].tensor();
    ASSERT_EQ(found.type(), expected.type());
    ASSERT_EQ(found.dims(), expected.dims());
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double y = load_double(expected.type(), expected.data(), i);
      EXPECT_NEAR(load_double(found.type(), found.data(), i), y, relative * std::abs(y) + absolute)
          << i;
    }
  }
}

constexpr const char* kProgram = R"(
program "strided" stage imported {
  symbol m bound 1..*
  module @main(%a: f32[m, 32], %codes: u8[2, 3, 8], %scales: f32[2, 3], %zeros: u8[1, 3]) {
    %c = transpose(%codes) {permutation = [1, 0, 2]}
    %s = transpose(%scales) {permutation = [1, 0]}
    %z = transpose(%zeros) {permutation = [1, 0]}
    %y = matmul_n_bits(%a, %c, %s, %z) {k = 32, n = 3, bits = 4, block_size = 16}
    return %y as "y"
  }
})";

TEST(GpuNBits, WeightsMayHaveAnyStrides) {
  Session reference(compile(parse_program(kProgram), {.target = find_target("ref")}));
  const Tensor codes = codes_of({2, 3, 8});
  const Tensor scales = rising({2, 3}, 0.1F, 0.05F);
  Tensor zeros(ElementType::u8, {1, 3});
  uint8_t zero = 0x57;
  for (uint8_t& x : zeros.elements<uint8_t>()) x = zero += 0x12;
  for (const auto& target : gpu_host_targets()) {
    Session session(compile(parse_program(kProgram), {.target = target}));
    for (const int64_t m : {1, 5}) {
      const Tensor a = between_0_and_1({m, 32});
      const std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}, Box{zeros}};
      const Tensor expected = reference.run(inputs)[0].tensor();
      const Tensor found = session.run(inputs)[0].tensor();
      ASSERT_EQ(found.dims(), expected.dims());
      for (int64_t i = 0; i < expected.count(); ++i) {
        EXPECT_NEAR(found.as<float>()[i], expected.as<float>()[i], 1e-5F) << i;
      }
    }
  }
}

// More columns than a block has waves, more depth than a wave loads at once.
constexpr const char* kWide = R"(
program "wide" stage imported {
  symbol m bound 1..*
  module @main(%a: f32[m, 640], %codes: u8[13, 20, 16], %scales: f32[13, 20]) {
    %y = matmul_n_bits(%a, %codes, %scales) {k = 640, n = 13, bits = 4, block_size = 32}
    return %y as "y"
  }
})";

TEST(GpuNBits, ColumnsAndDepthsExceedAWave) {
  const Tensor codes = codes_of({13, 20, 16});
  const Tensor scales = rising({13, 20}, 0.01F, 0.0005F);
  const Tensor a = between_0_and_1({9, 640});
  const std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}};
  expect_as_ref(kWide, inputs, 0, 1e-3);
}

// A row of more depth than shared memory has at once, in stages of whole groups of tiles;
// quantised, by blocks of more threads.
TEST(GpuNBits, OneRowExceedsAStage) {
  constexpr int64_t kBlocks = 257;
  const Tensor codes = codes_of({3, kBlocks, 16});
  const Tensor scales = rising({3, kBlocks}, 0.01F, 0.0005F);
  const Tensor a = between_0_and_1({1, kBlocks * 32});
  const std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}};
  for (const std::string compute : {"f32", "int8"}) {
    SCOPED_TRACE(compute);
    const std::string text = fmt::format(
        R"(
program "deep" stage imported {{
  module @main(%a: f32[1, {0}], %codes: u8[3, {1}, 16], %scales: f32[3, {1}]) {{
    %y = matmul_n_bits(%a, %codes, %scales) {{k = {0}, n = 3, bits = 4, block_size = 32,
      compute_type = "{2}"}}
    return %y as "y"
  }}
}})",
        kBlocks * 32, kBlocks, compute);
    expect_as_ref(text, inputs, 1e-4, 1e-2);
  }
}

// A quantised row times more columns than all groups of threads take at once; depths of whole
// tiles, and of parts of one.
TEST(GpuNBits, ARowTakesColumnsInTurns) {
  struct Case {
    int64_t bits;
    int64_t block;
    int64_t blocks;
    std::string_view zeros;  // their type, or ""
  };
  constexpr int64_t kColumns = 300;
  for (const Case& each : {Case{4, 128, 16, ""}, Case{4, 32, 45, "u8"}, Case{4, 64, 32, "f32"},
                           Case{8, 128, 8, ""}, Case{8, 32, 19, "u8"}, Case{8, 16, 64, "f32"}}) {
    SCOPED_TRACE(
        fmt::format("{} bits, {} x {}, {}", each.bits, each.blocks, each.block, each.zeros));
    const int64_t depth = each.block * each.blocks;
    const int64_t zeros = each.zeros == "u8" ? (each.blocks * each.bits + 7) / 8 : each.blocks;
    const std::string text = fmt::format(
        R"(
program "turns" stage imported {{
  module @main(%a: f32[1, {0}], %codes: u8[{1}, {2}, {3}], %scales: f32[{1}, {2}]{4}) {{
    %y = matmul_n_bits(%a, %codes, %scales{5}) {{k = {0}, n = {1}, bits = {6}, block_size = {7},
      compute_type = "int8"}}
    return %y as "y"
  }}
}})",
        depth, kColumns, each.blocks, each.block * each.bits / 8,
        each.zeros.empty() ? "" : fmt::format(", %zeros: {}[{}, {}]", each.zeros, kColumns, zeros),
        each.zeros.empty() ? "" : ", %zeros", each.bits, each.block);
    const Tensor codes = codes_of({kColumns, each.blocks, each.block * each.bits / 8});
    const Tensor scales = rising({kColumns, each.blocks}, 0.01F, 0.00005F);
    Tensor a(ElementType::f32, {1, depth});
    float value = 0.3F;
    for (float& x : a.elements<float>()) {
      value = 3.7F * value * (1 - value);
      x = value - 0.5F;
    }
    std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}};
    if (each.zeros == "u8") {
      inputs.emplace_back(codes_of({kColumns, zeros}));
    } else if (!each.zeros.empty()) {
      inputs.emplace_back(rising({kColumns, zeros}, 1, 0.001F));
    }
    expect_as_ref(text, inputs, 1e-4, 1e-2);
  }
}

// A row of f16 times bytes: as exact as its elements, also where few of them are much larger.
TEST(GpuNBits, ARowOfHalvesIsNotRoundedToBytes) {
  constexpr int64_t kDepth = 1152;
  constexpr int64_t kBlocks = kDepth / 128;
  constexpr int64_t kColumns = 40;
  for (const bool has_zeros : {false, true}) {
    SCOPED_TRACE(has_zeros);
    const std::string text = fmt::format(
        R"(
program "bytes" stage imported {{
  module @main(%a: f16[1, {0}], %codes: u8[{1}, {2}, 128], %scales: f16[{1}, {2}]{3}) {{
    %y = matmul_n_bits(%a, %codes, %scales{4}) {{k = {0}, n = {1}, bits = 8, block_size = 128}}
    return %y as "y"
  }}
}})",
        kDepth, kColumns, kBlocks,
        has_zeros ? fmt::format(", %z: u8[{}, {}]", kColumns, kBlocks) : "",
        has_zeros ? ", %z" : "");
    const Tensor codes = codes_of({kColumns, kBlocks, 128});
    Tensor scales(ElementType::f16, {kColumns, kBlocks});
    for (uint16_t& x : scales.elements<uint16_t>()) x = float_to_half(0.001F);
    Tensor a(ElementType::f16, {1, kDepth});
    float value = 0.3F;
    int64_t at = 0;
    for (uint16_t& x : a.elements<uint16_t>()) {
      value = 3.7F * value * (1 - value);
      x = float_to_half((value - 0.5F) * (at++ % 97 == 0 ? 50.0F : 1.0F));
    }
    std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}};
    if (has_zeros) {
      Tensor zeros(ElementType::u8, {kColumns, kBlocks});
      uint8_t zero = 7;
      for (uint8_t& x : zeros.elements<uint8_t>()) x = zero = static_cast<uint8_t>(zero + 90);
      inputs.emplace_back(zeros);
    }
    expect_as_ref(text, inputs, 1e-3, 2e-3);
  }
}

// Half of a's elements of a block are much larger than the others.
TEST(GpuNBits, BlocksMayBeOfAnySize) {
  constexpr int64_t kColumns = 3;
  for (const int64_t block : {256, 512, 16384}) {
    for (const std::string compute : {"int8", "f32"}) {
      SCOPED_TRACE(fmt::format("{} {}", block, compute));
      const int64_t blocks = block == 16384 ? 1 : 2;
      const int64_t depth = blocks * block;
      const std::string text = fmt::format(
          R"(
program "blocks" stage imported {{
  symbol m bound 1..*
  module @main(%a: f32[m, {0}], %codes: u8[3, {1}, {2}], %scales: f32[3, {1}]) {{
    %y = matmul_n_bits(%a, %codes, %scales) {{k = {0}, n = 3, bits = 8, block_size = {2},
      compute_type = "{3}"}}
    return %y as "y"
  }}
}})",
          depth, blocks, block, compute);
      Session reference(compile(parse_program(text), {.target = find_target("ref")}));
      const Tensor codes = codes_of({kColumns, blocks, block});
      const Tensor scales = rising({kColumns, blocks}, 0.01F, 0.0005F);
      for (const auto& target : gpu_host_targets()) {
        Session session(compile(parse_program(text), {.target = target}));
        for (const int64_t m : {1, 3}) {
          Tensor a(ElementType::f32, {m, depth});
          float value = 0.3F;
          int64_t at = 0;
          for (float& x : a.elements<float>()) {
            value = 3.7F * value * (1 - value);
            x = at++ % block < block / 2 ? 10 * value : value;
          }
          const std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}};
          const Tensor expected = reference.run(inputs)[0].tensor();
          const Tensor found = session.run(inputs)[0].tensor();
          for (int64_t i = 0; i < expected.count(); ++i) {
            const float y = expected.as<float>()[i];
            EXPECT_NEAR(found.as<float>()[i], y, 1e-4F * std::abs(y)) << m << ", " << i;
          }
        }
      }
    }
  }
}

// At most 72 rows, which would be unpacked, by the capacities of two dims; a run has 60, quantised,
// and few columns.
TEST(GpuNBits, FewRowsFitTheWorkspaceOfMany) {
  constexpr const char* kText = R"(
program "router" stage imported {
  symbol m bound 1..*
  symbol s bound 1..*
  module @main(%a: f16[m, s, 12800], %codes: u8[8, 100, 64], %scales: f16[8, 100]) {
    %t = transpose(%a) {permutation = [1, 0, 2]}
    %y = matmul_n_bits(%t, %codes, %scales) {k = 12800, n = 8, bits = 4, block_size = 128,
      compute_type = "int8"}
    return %y as "y"
  }
})";
  const Tensor codes = codes_of({8, 100, 64});
  Tensor scales(ElementType::f16, {8, 100});
  for (uint16_t& x : scales.elements<uint16_t>()) x = float_to_half(0.01F);
  Tensor a(ElementType::f16, {12, 5, 12800});
  float value = 0.3F;
  for (uint16_t& x : a.elements<uint16_t>()) x = float_to_half(value = 3.7F * value * (1 - value));
  const std::vector<Box> inputs{Box{a}, Box{codes}, Box{scales}};
  expect_as_ref(kText, inputs, 2e-2, 0.1);
}

}  // namespace
}  // namespace lathe::test

// SPDX-License-Identifier: MIT
#include "passes/quantize_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/ops.h"
#include "ir/parse.h"

namespace lathe {
namespace {

std::string zeros(int count) {
  std::string text = "0";
  for (int i = 1; i < count; ++i) text += ", 0";
  return text;
}

// The ops of main's products after int4, each with its bits and compute type.
std::vector<std::string> products(const std::string& body) {
  const auto program =
      parse_program("program \"test\" stage imported {\nmodule @main" + body + "\n}\n");
  quantize_weights(*program, {.bits = WeightBits::int4}, "logits");
  std::vector<std::string> all;
  for (const auto& instruction : program->main().instructions()) {
    if (instruction->op() == ops::matmul) all.emplace_back("matmul");
    if (instruction->op() != ops::matmul_n_bits) continue;
    const auto& attributes = instruction->attributes();
    all.push_back(fmt::format("{} {}", std::get<int64_t>(*find_attribute(attributes, "bits")),
                              std::get<std::string>(*find_attribute(attributes, "compute_type"))));
  }
  return all;
}

using Products = std::vector<std::string>;

TEST(QuantizeWeights, finds_the_head_behind_either_operand) {
  for (const char* sum : {"%b, %y", "%y, %b"}) {
    EXPECT_EQ(products(fmt::format(R"((%x: f32[1, 32]) {{
  %v = literal f32[32, 32] {{{}}}
  %w = literal f32[32, 16] {{{}}}
  %b = literal f32[16] {{{}}}
  %h = matmul(%x, %v)
  %y = matmul(%h, %w)
  %z = add({})
  return %z as "logits"
}})",
                                   zeros(1024), zeros(512), zeros(16), sum)),
              (Products{"4 int8", "8 f32"}))
        << sum;
  }
}

TEST(QuantizeWeights, takes_no_product_before_a_gemm_as_the_head) {
  EXPECT_EQ(products(fmt::format(R"((%x: f32[1, 32]) {{
  %v = literal f32[32, 32] {{{}}}
  %w = literal f32[32, 16] {{{}}}
  %h = matmul(%x, %v)
  %y = gemm(%h, %w)
  return %y as "logits"
}})",
                                 zeros(1024), zeros(512))),
            (Products{"4 int8"}));
}

TEST(QuantizeWeights, leaves_weights_of_8_bit_floats) {
  for (const auto& [type, expected] :
       {std::pair{"f16", "8 f32"}, {"bf16", "8 f32"}, {"f8e4m3fn", "matmul"}}) {
    EXPECT_EQ(products(fmt::format(R"((%x: f32[1, 32]) {{
  %v = literal {}[32, 16] {{{}}}
  %w = cast(%v) {{to = f32}}
  %y = matmul(%x, %w)
  return %y as "logits"
}})",
                                   type, zeros(512))),
              (Products{expected}))
        << type;
  }
}

}  // namespace
}  // namespace lathe

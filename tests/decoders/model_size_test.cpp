// SPDX-License-Identifier: MIT
#include "llm/model/model_size.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/parse.h"
#include "llm/model/decoder.h"
#include "plan/packing_source.h"
#include "targets/target.h"

namespace lathe::llm {
namespace {

constexpr int64_t kGibi = int64_t{1} << 30;

template <class F>
std::string message(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return fmt::format("{}: {}", error_kind_info(error.kind()).name, error.message());
  }
  return "no error";
}

TEST(ModelSize, weights_and_one_token_must_fit_into_available_memory) {
  const ModelSize size = {.weight_bytes = 3 * kGibi, .encoder_bytes = kGibi, .token_bytes = kGibi};
  EXPECT_EQ(size.bytes_at(2), 6 * kGibi);
  const auto error = [&](int64_t limit, int64_t available) {
    return message([&] { check_memory(size, limit, available, "m"); });
  };
  EXPECT_EQ(error(0, 5 * kGibi), "no error");
  EXPECT_EQ(error(0, 0), "no error");  // available memory unknown
  EXPECT_EQ(error(0, 5 * kGibi - 1),
            "OutOfMemory: one token's KV caches of 'm' require 1.0 GiB beside weights of 4.0 GiB, "
            "but 5.0 GiB "
            "are available");
  EXPECT_EQ(error(0, 4 * kGibi - 1),
            "OutOfMemory: the weights of 'm' require 4.0 GiB, but 4.0 GiB are available: use a "
            "smaller model or "
            "one of fewer bits");
  EXPECT_EQ(error(kGibi - 1, 9 * kGibi),
            "OutOfMemory: one token's KV caches of 'm' require 1.0 GiB, but the memory limit is "
            "1024.0 MiB");
}

TEST(ModelSize, overflowing_sizes_saturate) {
  const ModelSize size = {.weight_bytes = INT64_MAX, .encoder_bytes = 1, .token_bytes = INT64_MAX};
  EXPECT_EQ(size.bytes_at(INT64_MAX), INT64_MAX);
}

TEST(ModelSize, a_request_beyond_the_machine_is_refused) {
  const Decoder decoder("examples/counting");
  decoder.check_room(1000, 0, 0);
  const std::string error = message([&] { decoder.check_room(int64_t{1} << 50, 0, 2048); });
  EXPECT_TRUE(error.starts_with(
      "OutOfMemory: 1125899906842624 tokens require 131072.0 TiB of KV caches (128 "
      "bytes per token), but beside weights of 5.0 KiB and 2.0 KiB of other "
      "sequences "))
      << error;
  EXPECT_TRUE(error.ends_with(" are available")) << error;
}

// A product in f32, one in bf16, a bias, and a table of which a token reads two numbers.
TEST(ModelSize, a_token_reads_products_in_their_compute_type_and_no_tables) {
  const auto program = parse_program(R"(program "step" stage imported {
  symbol n bound 1..*
  module @main(%id: i64[n]) {
    %table = literal f32[3, 2] {1, 2, 3, 4, 5, 6}
    %w = literal f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8}
    %v = literal f32[4, 2] {8, 7, 6, 5, 4, 3, 2, 1}
    %b = literal f32[4] {1, 2, 3, 4}
    %x = gather(%table, %id)
    %h = matmul(%x, %w)
    %a = add(%h, %b)
    %y = matmul(%a, %v) {compute_type = "bf16"}
    return %y as "y"
  }
})");
  EXPECT_EQ(step_weight_bytes(*program, nullptr), 8 * 4 + 8 * 2 + 4 * 4);
  EXPECT_EQ(weight_bytes({program.get()}), (6 + 8 + 8 + 4) * 4);
}

// A token reads two of three experts and their biases.
TEST(ModelSize, a_token_reads_the_experts_that_it_selects) {
  const auto program = parse_program(R"(program "step" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 2], %router: f32[n, 3]) {
    %fc1 = literal f32[3, 4, 2] {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}
    %b1 = literal f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
    %fc2 = literal f32[3, 2, 4] {8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1}
    %y = moe(%x, %router, %fc1, %b1, %fc2) {k = 2, activation_type = "silu"}
    return %y as "y"
  }
})");
  EXPECT_EQ(step_weight_bytes(*program, nullptr), 2 * (8 + 4 + 8) * 4);
  EXPECT_EQ(weight_bytes({program.get()}), 3 * (8 + 4 + 8) * 4);
}

// Floats that are quantised when the plan is made stay in the file, of which lookups read little;
// a sum reads all of them.
TEST(ModelSize, quantised_weights_count_without_their_floats) {
  const auto bytes = [](std::string_view more) {
    return weight_bytes(
        {parse_program(fmt::format(R"(program "step" stage imported {{
  symbol n bound 1..*
  module @main(%x: f32[n, 64], %id: i64[n]) {{
    %w = literal f32[64, 16] {{{}}}
    %c, %s, %z = deferred quantize_blocks(%w) {{bits = 4}}
    %y = matmul_n_bits(%x, %c, %s, %z) {{k = 64, n = 16, block_size = 32}}
    %e = gather(%w, %id)
    {}
    return %y as "y", %e as "e"
  }}
}})",
                                   fmt::join(std::vector<int>(64 * 16, 1), ", "), more))
             .get()});
  };
  constexpr int64_t kQuantised = 16 * (64 / 2 + 2 * 2 + 2 * 4);
  EXPECT_EQ(bytes(""), kQuantised);
  EXPECT_EQ(bytes("%a = add(%w, %w)"), kQuantised + 64 * 16 * 4);
}

#if defined(__x86_64__)
// One is a weight of a product, one of a product that the kernel holds in f32 since a sum reads it.
TEST(ModelSize, a_token_reads_weights_of_16_bits_as_the_kernels_hold_them) {
  const auto program = parse_program(R"(program "step" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 4], %z: f32[4, 4]) {
    %w = literal bf16[2, 4] {1, 2, 3, 4, 5, 6, 7, 8}
    %wide = deferred cast(%w) {to = f32}
    %t = deferred transpose(%wide)
    %v = literal f16[4, 4] {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}
    %u = deferred cast(%v) {to = f32}
    %y = matmul(%x, %t)
    %p = matmul(%x, %u)
    %s = add(%z, %u)
    return %y as "y", %p as "p", %s as "s"
  }
})");
  const auto target = find_target("cpu");
  const auto* packing = dynamic_cast<const PackingSource*>(target.get());
  ASSERT_NE(packing, nullptr);
  EXPECT_EQ(step_weight_bytes(*program, packing), 8 * 2 + 16 * 4);
  EXPECT_EQ(step_weight_bytes(*program, nullptr), 8 * 4 + 16 * 4);
}

// 4 bits, an f16 scale and an f16 minimum per 32; a kernel without the compact form reads f32
// minimums.
TEST(ModelSize, a_token_reads_quantised_weights_in_the_compact_form) {
  const auto program = parse_program(fmt::format(R"(program "step" stage imported {{
  symbol n bound 1..*
  module @main(%x: f32[n, 64]) {{
    %w = literal f32[64, 16] {{{}}}
    %c, %s, %z = deferred quantize_blocks(%w) {{bits = 4}}
    %y = matmul_n_bits(%x, %c, %s, %z) {{k = 64, n = 16, block_size = 32}}
    return %y as "y"
  }}
}})",
                                                 fmt::join(std::vector<int>(64 * 16, 1), ", ")));
  const auto target = find_target("cpu");
  const auto* packing = dynamic_cast<const PackingSource*>(target.get());
  EXPECT_EQ(step_weight_bytes(*program, packing), 16 * (64 / 2 + 2 * 4));
  EXPECT_EQ(step_weight_bytes(*program, nullptr), 16 * (64 / 2 + 2 * 2 + 2 * 4));
}
#endif

}  // namespace
}  // namespace lathe::llm

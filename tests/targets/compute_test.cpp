// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
namespace {

constexpr int64_t kDepth = 70, kColumns = 24;

// A matmul, a gemm with all its attributes, a 4-bit matmul_n_bits and one with float zero points.
constexpr std::string_view kGemms = R"(program "gemms" stage imported {
  symbol m bound 1..*
  module @main(%x: f32[m, 70], %u: f32[m, 32], %v: f32[32, 2], %c: f32[24]) {
    %w = literal f32[70, 24] {WEIGHTS}
    %a = matmul(%x, %w)
    %t = literal f32[24, 70] {WEIGHTS}
    %g = gemm(%x, %t, %c) {alpha = 0.5, beta = 2, trans_b = true}
    %b = literal u8[2, 1, 16] {250, 33, 189, 131, 95, 63, 16, 87, 59, 209, 228, 101, 99, 200, 39, 3, 53, 255, 113, 244, 8, 173, 67, 50, 162, 168, 200, 48, 215, 95, 15, 8}
    %s = literal f32[2, 1] {0.0625, 0.125}
    %n = matmul_n_bits(%u, %b, %s) {k = 32, n = 2, block_size = 32}
    %z = literal f32[2, 1] {7.5, 8.25}
    %f = matmul_n_bits(%u, %b, %s, %z) {k = 32, n = 2, block_size = 32}
    %i = literal i32[32] {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    %h = matmul_n_bits(%u, %b, %s, %z, %i) {k = 32, n = 2, block_size = 32}
    %d = matmul(%u, %v)
    return %a as "a", %g as "g", %n as "n", %f as "f", %h as "h", %d as "d"
  }
})";

float wave(int64_t i) { return std::sin(static_cast<float>(i) * 0.61F) * 1.5F; }

std::unique_ptr<Program> gemms() {
  std::string weights;
  for (int64_t i = 0; i < kDepth * kColumns; ++i) {
    weights += fmt::format("{}{}", i == 0 ? "" : ", ", wave(i));
  }
  std::string text(kGemms);
  for (size_t at; (at = text.find("WEIGHTS")) != std::string::npos;) text.replace(at, 7, weights);
  return parse_program(text);
}

std::shared_ptr<const Plan> compiled(Compute compute, std::string_view target) {
  return compile(gemms(), {.target = find_target(target), .compute = compute});
}

Tensor activations(Dims dims) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.as<float>()[i] = wave(3 * i + 1);
  return tensor;
}

std::vector<Box> inputs(int64_t rows) {
  return {Box{activations({rows, kDepth})}, Box{activations({rows, 32})}, Box{activations({32, 2})},
          Box{activations({kColumns})}};
}

// Compute types of the GEMMs with weights, in order.
std::vector<std::string> computes(const Plan& plan) {
  std::vector<std::string> all;
  for (const Launch& launch : plan.modules.front().launches) {
    const std::string_view compute = compute_of(*launch.instruction);
    if (!compute.empty()) all.emplace_back(compute);
  }
  return all;
}

// The largest difference of result `i`, relative to its largest element.
double distance(const std::vector<Box>& a, const std::vector<Box>& b, size_t i) {
  const auto x = a[i].tensor().elements<float>(), y = b[i].tensor().elements<float>();
  double difference = 0, largest = 0;
  for (size_t at = 0; at < x.size(); ++at) {
    difference = std::max(difference, std::abs(static_cast<double>(x[at]) - y[at]));
    largest = std::max(largest, std::abs(static_cast<double>(y[at])));
  }
  return difference / largest;
}

const std::vector<std::string_view>& targets() {
  static const std::vector<std::string_view> all = {"ref",
#if defined(__x86_64__)
                                                    "cpu"
#endif
  };
  return all;
}

TEST(ComputeTest, SetsTheTypeOfEveryGemmThatSupportsIt) {
  using Names = std::vector<std::string>;
  for (const std::string_view target : targets()) {
    EXPECT_EQ(computes(*compiled(Compute::as_model, target)), (Names(5, "f32")));
    EXPECT_EQ(computes(*compiled(Compute::f32, target)), (Names(5, "f32")));
    EXPECT_EQ(computes(*compiled(Compute::bf16, target)), (Names(5, "bf16")));
    const auto plan = compiled(Compute::int8, target);
    EXPECT_EQ(computes(*plan), (Names{"int8", "int8", "int8", "int8", "f32"}));
    for (const Launch& launch : plan->modules.front().launches) {
      if (compute_of(*launch.instruction) != "f32") continue;
      EXPECT_EQ(compute_refusal(*launch.instruction, Compute::int8),
                "its weights are permuted by g_idx");
    }
  }
}

TEST(ComputeTest, ChangesResultsByItsRoundingOnly) {
  const std::vector<Box> arguments = inputs(37);
  Session exact(compiled(Compute::f32, "ref"));
  const std::vector<Box> expected = exact.run(arguments);
  for (const std::string_view target : targets()) {
    const auto run = [&](Compute compute) {
      return Session(compiled(compute, target)).run(arguments);
    };
    const std::vector<Box> f32 = run(Compute::f32), bf16 = run(Compute::bf16);
    const std::vector<Box> int8 = run(Compute::int8);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(distance(f32, expected, i), 1e-6) << target << " result " << i;
      EXPECT_LE(distance(bf16, expected, i), 1e-2) << target << " result " << i;
      EXPECT_LE(distance(int8, expected, i), 2.5e-2) << target << " result " << i;
    }
    // Sums cancel here, which amplifies the rounding errors. A matmul of two activations has none.
    EXPECT_GE(distance(bf16, expected, 0), 1e-5);
    EXPECT_GE(distance(int8, expected, 0), 1e-5);
    EXPECT_LE(distance(bf16, expected, 5), 1e-6);
    EXPECT_LE(distance(int8, expected, 5), 1e-6);
  }
}

#if defined(__x86_64__)
TEST(ComputeTest, TargetsAgree) {
  for (const int64_t rows : {1, 5, 37}) {
    const std::vector<Box> arguments = inputs(rows);
    for (const Compute compute : {Compute::int8, Compute::bf16}) {
      const std::vector<Box> expected = Session(compiled(compute, "ref")).run(arguments);
      ThreadPool pool(2);
      const std::vector<Box> found =
          Session(compiled(compute, "cpu"), {.pool = &pool, .warn = {}}).run(arguments);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LE(distance(found, expected, i), 1e-6)
            << to_string(compute) << ", " << rows << " rows, result " << i;
      }
    }
  }
}
#endif

TEST(ComputeTest, SuggestsAKnownName) {
  EXPECT_EQ(parse_compute("bf16", "--compute"), Compute::bf16);
  try {
    parse_compute("int9", "--compute");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(std::string(error.message()).find("--compute is 'int9' (did you mean 'int8'?)"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace lathe

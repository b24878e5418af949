// SPDX-License-Identifier: MIT
// Many draws from one row of logits: the reference's tokens, distributed as the softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

constexpr const char* kProgram = R"(
program "draws" stage imported {
  symbol n bound 1..*
  module @main(%logits: f32[1, 12], %integers: i64[n, 8], %numbers: f64[n, 6], %bounds: i32[n + 1]) {
    %edits = literal i32[0, 2] {}
    %values = literal f64[0] {}
    %ranks = literal i32[0] {}
    %t, %p, %l, %q = choose_tokens(%logits, %integers, %numbers, %bounds, %edits, %values, %ranks, _)
    return %t as "t"
  }
})";

constexpr std::array<float, 12> kLogits{1.5F, -0.25F, 0.5F, 2,     0.125F, -1,
                                        3,    0.75F,  1,    -0.5F, 2.5F,   0};

// `count` sequences of the row, drawn by their numbers.
std::vector<Box> inputs(int64_t count) {
  Tensor logits(ElementType::f32, {1, 12});
  std::ranges::copy(kLogits, logits.elements<float>().begin());
  Tensor integers(ElementType::i64, {count, 8});
  Tensor numbers(ElementType::f64, {count, 6});
  for (int64_t i = 0; i < count; ++i) {
    const std::array<int64_t, 8> own{0, 1, 0, 42, i, 7, -1, -1};
    std::ranges::copy(own, integers.as<int64_t>() + 8 * i);
    const std::array<double, 6> rates{1, 0, 0, 1, 0, 0};
    std::ranges::copy(rates, numbers.as<double>() + 6 * i);
  }
  Tensor bounds(ElementType::i32, {count + 1});
  std::ranges::fill(bounds.elements<int32_t>(), 0);
  return {Box{logits}, Box{integers}, Box{numbers}, Box{bounds}};
}

std::vector<int32_t> drawn(const std::shared_ptr<const Target>& target, int64_t count) {
  Session session(compile(parse_program(kProgram), {.target = target}));
  const std::vector<Box> results = session.run(inputs(count));
  const auto tokens = results[0].tensor().elements<const int32_t>();
  return {tokens.begin(), tokens.end()};
}

TEST(GpuChooseTokens, DrawsFromTheSoftmax) {
  constexpr int64_t kDraws = 100'000;
  const std::vector<int32_t> tokens = drawn(gpu_host_targets()[0], kDraws);
  EXPECT_EQ(tokens, drawn(find_target("ref"), kDraws));
  std::array<double, 12> found{};
  for (const int32_t token : tokens) ++found.at(static_cast<size_t>(token));
  double total = 0;
  for (const float x : kLogits) total += std::exp(x);
  double distance = 0;
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const double expected = kDraws * std::exp(kLogits[i]) / total;
    distance += (found[i] - expected) * (found[i] - expected) / expected;
  }
  EXPECT_LT(distance, 37.37);  // chi-square of 11 degrees of freedom: p = 1e-4
}

TEST(GpuChooseTokens, DrawsAlikeInEveryOrderOfThreads) {
  const std::vector<int32_t> expected = drawn(find_target("ref"), 2000);
  for (const auto& target : gpu_host_targets()) EXPECT_EQ(drawn(target, 2000), expected);
}

}  // namespace
}  // namespace lathe::test

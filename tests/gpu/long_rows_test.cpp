// SPDX-License-Identifier: MIT
// Tokens chosen from rows that are prepared in parts: the reference's tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

constexpr const char* kProgram = R"(
program "long rows" stage imported {
  symbol n bound 1..*
  module @main(%logits: f32[4, 16400], %integers: i64[n, 8], %numbers: f64[n, 6], %bounds: i32[n + 1], %edits: i32[1, 2], %values: f64[1]) {
    %ranks = literal i32[0] {}
    %t, %p, %l, %q = choose_tokens(%logits, %integers, %numbers, %bounds, %edits, %values, %ranks, _)
    return %t as "t"
  }
})";

constexpr int64_t kRows = 4;
constexpr int64_t kVocabulary = 16400;

// Rows: all differ; 30 values many times; one is infinite; no numbers but a few.
Tensor logits() {
  Tensor made(ElementType::f32, {kRows, kVocabulary});
  uint32_t state = 9;
  for (int64_t i = 0; i < made.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float x = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
    made.as<float>()[i] = i / kVocabulary == 1 ? static_cast<float>(state >> 27) / 4 : x * 12;
  }
  made.as<float>()[2 * kVocabulary + 9000] = std::numeric_limits<float>::infinity();
  for (int64_t i = 3 * kVocabulary; i < made.count(); ++i) {
    if (i % 700 != 0) made.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return made;
}

struct Choice {
  int64_t row = 0;
  int64_t samples = 1;
  int64_t top_k = 0;
  double temperature = 1;
  double top_p = 0;
};

TEST(GpuChooseTokens, LongRowsHaveTheReferencesTokens) {
  std::vector<Choice> choices;
  for (int64_t row = 0; row < kRows; ++row) {
    choices.push_back({row, 0});
    for (const int64_t k : {1, 50, 64, 65}) {
      choices.push_back({row, 1, k});
      choices.push_back({row, 1, k, 0.7, 0.9});
    }
    choices.push_back({row, 1, 0, 1.3});
    // The top p are a few thousand tokens, or more than a list holds, or end in a crowd.
    for (const double temperature : {1.0, 4.0, 60.0}) {
      for (const double p : {0.3, 0.9, 0.9, 0.999}) {
        choices.push_back({row, 1, 0, temperature, p});
      }
    }
  }
  const auto count = std::ssize(choices);
  Tensor integers(ElementType::i64, {count, 8});
  Tensor numbers(ElementType::f64, {count, 6});
  for (int64_t i = 0; i < count; ++i) {
    const Choice& c = choices[static_cast<size_t>(i)];
    const std::array<int64_t, 8> own{c.row, c.samples, c.top_k, 42, i, 7, -1, -1};
    std::ranges::copy(own, integers.as<int64_t>() + 8 * i);
    const std::array<double, 6> rates{c.temperature, c.top_p, 0, 1, 0, 0};
    std::ranges::copy(rates, numbers.as<double>() + 6 * i);
  }
  // The third sequence's most likely token is another.
  Tensor bounds(ElementType::i32, {count + 1});
  for (int64_t i = 0; i <= count; ++i) bounds.as<int32_t>()[i] = i < 3 ? 0 : 1;
  Tensor edits(ElementType::i32, {1, 2});
  edits.as<int32_t>()[0] = 17;
  edits.as<int32_t>()[1] = 1;
  Tensor values(ElementType::f64, {1});
  values.as<double>()[0] = 40;
  const std::vector<Box> inputs{Box{logits()}, Box{integers}, Box{numbers},
                                Box{bounds},   Box{edits},    Box{values}};
  const auto tokens_on = [&](const std::shared_ptr<const Target>& target) {
    Session session(compile(parse_program(kProgram), {.target = target}));
    const std::vector<Box> results = session.run(inputs);
    const auto tokens = results[0].tensor().elements<const int32_t>();
    return std::vector<int32_t>(tokens.begin(), tokens.end());
  };
  const std::vector<int32_t> expected = tokens_on(find_target("ref"));
  EXPECT_EQ(expected[2], 17);
  for (const auto& target : gpu_host_targets()) EXPECT_EQ(tokens_on(target), expected);
}

}  // namespace
}  // namespace lathe::test

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
  symbol e bound 1..*
  module @main(%logits: f32[8, 16400], %integers: i64[n, 8], %numbers: f64[n, 6], %bounds: i32[n + 1], %edits: i32[e, 2], %values: f64[e], %masks: u32[2, 513]) {
    %ranks = literal i32[0] {}
    %t, %p, %l, %q = choose_tokens(%logits, %integers, %numbers, %bounds, %edits, %values, %ranks, %masks)
    return %t as "t"
  }
})";

constexpr int64_t kRows = 8;
constexpr int64_t kVocabulary = 16400;

// Rows: all differ; 30 values many times; one is infinite; no numbers but a few; near 0, of both
// signs; one is far above the others; large and negative; few values below 0, the others equal.
Tensor logits() {
  Tensor made(ElementType::f32, {kRows, kVocabulary});
  uint32_t state = 9;
  for (int64_t i = 0; i < made.count(); ++i) {
    state = state * 1664525U + 1013904223U;
    const float x = static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
    made.as<float>()[i] = i / kVocabulary == 1 ? static_cast<float>(state >> 27) / 4 : x * 12;
  }
  made.as<float>()[2 * kVocabulary + 9000] = std::numeric_limits<float>::infinity();
  const auto change = [&](int64_t row, auto to) {
    float* const own = made.as<float>() + row * kVocabulary;
    for (int64_t i = 0; i < kVocabulary; ++i) own[i] = to(i, own[i]);
  };
  change(3, [](int64_t i, float x) {
    return i % 700 == 0 ? x : std::numeric_limits<float>::quiet_NaN();
  });
  change(4, [](int64_t, float x) { return (x - 11.99F) * 1e-3F; });
  change(5, [](int64_t i, float x) { return i == 8200 ? 3e38F : x; });
  change(6, [](int64_t, float x) { return -1e6F - x * 1e3F; });
  change(7, [](int64_t i, float x) { return i % 400 == 7 ? -x : -20; });
  return made;
}

struct Edit {
  int32_t token = 0;
  int32_t kind = 0;  // base/logit_edit.h
  double value = 0;
};
// One and the same token twice, tokens at the ends of parts and of the row, tokens that do not
// exist.
constexpr std::array<Edit, 8> kEdits{{{17, 1, 40},
                                      {8191, 0, 11},
                                      {8192, 2, 1.5},
                                      {16399, 0, 12},
                                      {8191, 3, -0.25},
                                      {16400, 1, 90},
                                      {-1, 1, 90},
                                      {9000, 1, 3}}};

// All tokens but every third; tokens from 8,200 on.
Tensor masks() {
  constexpr int64_t kWords = (kVocabulary + 31) / 32;
  Tensor made(ElementType::u32, {2, kWords});
  std::ranges::fill(made.elements<uint32_t>(), 0);
  for (int64_t token = 0; token < kVocabulary; ++token) {
    const uint32_t bit = 1U << token % 32;
    if (token % 3 != 0) made.as<uint32_t>()[token / 32] |= bit;
    if (token >= 8200) made.as<uint32_t>()[kWords + token / 32] |= bit;
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
      choices.push_back({row, 1, k, 30, 0.3});
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
    // Some rows are edited, some masked, some both; one of the masks does not exist.
    const int64_t mask = i % 5 < 3 ? -1 : i % 15 == 13 ? 2 : i % 5 - 3;
    const std::array<int64_t, 8> own{c.row, c.samples, c.top_k, 42, i, 7, mask, -1};
    std::ranges::copy(own, integers.as<int64_t>() + 8 * i);
    const std::array<double, 6> rates{c.temperature, c.top_p, 0, 1, 0, 0};
    std::ranges::copy(rates, numbers.as<double>() + 6 * i);
  }
  std::vector<Edit> all_edits;
  Tensor bounds(ElementType::i32, {count + 1});
  for (int64_t i = 0; i < count; ++i) {
    bounds.as<int32_t>()[i] = static_cast<int32_t>(all_edits.size());
    // The third sequence's most likely token is another.
    const size_t edits_of = i == 2 ? 1 : i % 4 == 3 ? kEdits.size() : 0;
    all_edits.insert(all_edits.end(), kEdits.begin(), kEdits.begin() + edits_of);
  }
  bounds.as<int32_t>()[count] = static_cast<int32_t>(all_edits.size());
  const auto edit_count = std::ssize(all_edits);
  Tensor edits(ElementType::i32, {edit_count, 2});
  Tensor values(ElementType::f64, {edit_count});
  for (int64_t i = 0; i < edit_count; ++i) {
    const Edit& edit = all_edits[static_cast<size_t>(i)];
    edits.as<int32_t>()[2 * i] = edit.token;
    edits.as<int32_t>()[2 * i + 1] = edit.kind;
    values.as<double>()[i] = edit.value;
  }
  const std::vector<Box> inputs{Box{logits()}, Box{integers}, Box{numbers}, Box{bounds},
                                Box{edits},    Box{values},   Box{masks()}};
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

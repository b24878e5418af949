// SPDX-License-Identifier: MIT
// How many steps rounded integers may differ, and to which side.
#include "runtime/difference.h"

#include <gtest/gtest.h>

#include <functional>

namespace lathe {
namespace {

constexpr int64_t kCount = 4096;
constexpr Tolerance kOneStep{.steps = 1};

// Bytes around 100, moved by `step` of each index.
Box bytes(const std::function<int(int64_t)>& step) {
  Tensor tensor(ElementType::u8, {kCount});
  for (int64_t i = 0; i < kCount; ++i) {
    tensor.as<uint8_t>()[i] = static_cast<uint8_t>(100 + i % 7 + step(i));
  }
  return Box{std::move(tensor)};
}

std::string difference(const std::function<int(int64_t)>& step) {
  return compare_values(bytes(step), bytes([](int64_t) { return 0; }), kOneStep).text;
}

TEST(Difference, AllowsStepsToBothSides) {
  EXPECT_EQ(difference([](int64_t i) { return i % 3 == 0 ? (i % 2 == 0 ? 1 : -1) : 0; }), "");
}

TEST(Difference, AllowsAFewStepsToOneSide) {
  EXPECT_EQ(difference([](int64_t i) { return i % 32 == 0 ? 1 : 0; }), "");
}

TEST(Difference, FindsManyStepsToOneSide) {
  EXPECT_EQ(difference([](int64_t i) { return i % 2 == 0 ? -1 : 0; }),
            "0 of 4096 elements are above and 2048 below what was expected");
  EXPECT_EQ(difference([](int64_t) { return 1; }),
            "4096 of 4096 elements are above and 0 below what was expected");
}

TEST(Difference, FindsTwoSteps) {
  EXPECT_EQ(difference([](int64_t i) { return i == 5 ? 2 : 0; }), "element 5 is 107, expected 105");
}

}  // namespace
}  // namespace lathe

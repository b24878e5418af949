// SPDX-License-Identifier: MIT
#include "llm/search/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe::search {
namespace {

TEST(BeamSearch, never_takes_what_is_not_a_number) {
  SearchOptions options;
  options.num_beams = 12;
  options.num_return_sequences = 12;
  BeamSearch search(options, {63}, 1, 3);
  while (!search.done()) {
    std::vector<float> row(64, NAN);
    for (size_t i = 1; i < row.size(); i += 3) row[i] = -static_cast<float>(i);
    search.step(std::vector<std::span<const float>>(search.beams(), row));
  }
  const std::vector<Hypothesis> found = search.finish();
  ASSERT_EQ(found.size(), 12);
  EXPECT_EQ(found.front().tokens, (std::vector<Token>{1, 1}));
  for (const Hypothesis& hypothesis : found) {
    EXPECT_TRUE(std::isfinite(hypothesis.score));
    for (const Token token : hypothesis.tokens) EXPECT_EQ(token % 3, 1) << token;
  }
}

}  // namespace
}  // namespace lathe::search

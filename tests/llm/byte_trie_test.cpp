// SPDX-License-Identifier: MIT
#include "llm/tokenizer/byte_trie.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>

namespace lathe::tokenizer {
namespace {

using Keys = std::map<std::string, uint32_t>;

ByteTrie make(const Keys& keys) {
  return ByteTrie(std::vector<std::pair<std::string_view, uint32_t>>(keys.begin(), keys.end()));
}

// The result of comparing every key at every offset.
void expect_all_found(const Keys& keys, const std::string& text) {
  const ByteTrie trie = make(keys);
  const KeyFinder finder(trie, text);
  for (size_t at = 0; at <= text.size(); ++at) {
    std::map<size_t, uint32_t> expected;
    for (const auto& [key, value] : keys) {
      if (!key.empty() && text.compare(at, key.size(), key) == 0) expected[key.size()] = value;
    }
    std::map<size_t, uint32_t> found;
    finder.visit(at, [&](size_t length, uint32_t value) { found[length] = value; });
    ASSERT_EQ(found, expected) << "at " << at << " of " << text;
    const auto [length, value] = finder.longest(at);
    ASSERT_EQ(length, expected.empty() ? 0 : expected.rbegin()->first);
    if (length > 0) {
      ASSERT_EQ(value, expected.rbegin()->second);
    }
  }
}

TEST(KeyFinder, EqualsACompareOfAllKeysForShortAndLongKeys) {
  std::mt19937 random(7);
  const auto word = [&](size_t shortest, size_t longest, uint32_t letters) {
    std::string out;
    for (size_t n = shortest + random() % (longest - shortest + 1); n > 0; --n) {
      out += static_cast<char>('a' + random() % letters);
    }
    return out;
  };
  for (uint32_t round = 0; round < 300; ++round) {
    const uint32_t letters = 1 + round % 3;
    Keys keys;
    for (uint32_t i = 0; i < 12; ++i) keys[word(0, 6, letters)] = i;
    const std::string text = word(0, 200, letters);
    if (round % 2 == 1) {
      // Long keys: substrings of the text, unchanged and with another end.
      for (uint32_t i = 0; i < 4; ++i) {
        std::string key = text.substr(random() % (text.size() + 1)) + word(65, 90, letters);
        keys[key] = 100 + i;
        keys[text.substr(random() % (text.size() + 1), 70)] = 200 + i;
      }
      keys[word(65, 80, letters)] = 300;
    }
    expect_all_found(keys, text);
  }
}

TEST(KeyFinder, NearMatchesOfALongKeyTakeLinearTime) {
  const Keys keys = {{std::string(30'000, 'a') + "b", 1}, {"aab", 2}};
  const std::string text(200'000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  const ByteTrie trie = make(keys);
  const KeyFinder finder(trie, text);
  size_t found = 0;
  for (size_t at = 0; at < text.size(); ++at) found += finder.longest(at).first;
  EXPECT_EQ(found, 0U);
  // A search from every offset takes 6e9 steps.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace
}  // namespace lathe::tokenizer

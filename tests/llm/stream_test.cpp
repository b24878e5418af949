// SPDX-License-Identifier: MIT
#include "llm/tokenizer/stream.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "llm/tokenizer/bpe_merge.h"
#include "llm/tokenizer/decoder.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

// The text before the first stop string, and its index, by a search of the whole text.
std::pair<std::string, std::optional<size_t>> search(const std::string& text,
                                                     const std::vector<std::string>& strings) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> found;
    for (size_t i = 0; i < strings.size(); ++i) {
      if (!text.substr(0, end).ends_with(strings[i])) continue;
      if (!found || strings[i].size() > strings[*found].size()) found = i;
    }
    if (found) return {text.substr(0, end - strings[*found].size()), found};
  }
  return {text, std::nullopt};
}

TEST(StopStrings, EqualASearchOfTheWholeTextForAllPieces) {
  std::mt19937 random(1);
  const auto word = [&](size_t longest) {
    std::string out;
    for (size_t n = 1 + random() % longest; n > 0; --n) out += "ab\xC3\xA9"[random() % 4];
    return out;
  };
  int stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> strings;
    for (size_t n = 1 + random() % 3; n > 0; --n) strings.push_back(word(5));
    const std::string text = word(40);
    StopStrings stops(strings);
    std::string given;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 4;
      const std::string piece = stops.push(text.substr(at, size));
      // Emitted text is final: it precedes any stop string.
      given += piece;
      at += size;
    }
    given += stops.finish();
    const auto [expected, found] = search(text, strings);
    EXPECT_EQ(given, expected) << text;
    EXPECT_EQ(stops.found(), found) << text;
    stopped += found ? 1 : 0;
  }
  EXPECT_GT(stopped, 400);
}

TEST(StopStrings, HoldBackOnlyPossiblePrefixes) {
  StopStrings stops({"<end>"});
  EXPECT_EQ(stops.push("a <"), "a ");
  EXPECT_EQ(stops.push("e"), "");
  EXPECT_EQ(stops.push("x"), "<ex");
  EXPECT_EQ(stops.push("<<en"), "<");
  EXPECT_EQ(stops.push("d> more"), "");
  EXPECT_EQ(stops.found(), 0u);
  EXPECT_EQ(stops.push("and more"), "");
  stops.reset();
  EXPECT_EQ(stops.push("again"), "again");
  EXPECT_THROW(StopStrings({"a", ""}), Error);
}

TEST(DecodeStream, EmitsWholeCharactersOnce) {
  const auto tokenizer = load_tokenizer("examples/tokenizer");
  const std::string text = "na\u00efve \u65e5\u672c \U0001F468\u200D\U0001F469 ok\n\u00e9";
  DecodeStream stream(tokenizer);
  std::string all;
  for (const uint32_t id : tokenizer->encode(text).ids) {
    const std::string piece = stream.step(id);
    EXPECT_EQ(unicode::find_invalid_utf8(piece), std::string_view::npos);
    EXPECT_EQ(piece.find("\uFFFD"), std::string::npos);
    all += piece;
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST(DecodeStream, EmitsInvalidBytesAtTheEndOrOnceTheyAreFinal) {
  const auto tokenizer = load_tokenizer("examples/tokenizer");
  const std::vector<uint32_t> bytes = tokenizer->encode("\u65e5").ids;  // a token for each byte
  ASSERT_EQ(bytes.size(), 3u);
  DecodeStream stream(tokenizer);
  EXPECT_EQ(stream.step(bytes[0]), "");
  EXPECT_EQ(stream.step(bytes[1]), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.step(bytes[0]), "");
  EXPECT_EQ(stream.step(tokenizer->token_to_id("H")), "\uFFFDH");
  // A stream of incomplete characters needs bounded memory.
  std::string all;
  for (int i = 0; i < 5000; ++i) all += stream.step(bytes[1]);
  EXPECT_GE(all.size(), 3u * 3900u);
  all += stream.finish();
  EXPECT_EQ(all.size(), 3u * 5000u);
}

TEST(DecodeStream, EmitsWholeCharactersOfALongRunWithoutATokenBoundary) {
  // Bytes EB AC 84 are one character; the last token has the end of one and the start of the next.
  const std::string json = R"({"version": "1.0", "truncation": null, "padding": null,
      "added_tokens": [], "normalizer": null, "post_processor": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                        "use_regex": false},
      "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                  "use_regex": true},
      "model": {"type": "BPE", "dropout": null, "unk_token": null, "byte_fallback": false,
                "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
                "vocab": {"\u00eb": 0, "\u00ac": 1, "\u0126": 2, "\u0126\u00eb": 3,
                          "\u0126\u00eb\u00ac": 4},
                "merges": [["\u0126", "\u00eb"], ["\u0126\u00eb", "\u00ac"]]}})";
  const auto tokenizer = load_tokenizer_bytes(json, "the test");
  std::vector<uint32_t> ids = {0, 1};
  ids.resize(5002, 4);
  ids.push_back(2);
  DecodeStream stream(tokenizer);
  std::string all;
  size_t longest = 0;
  for (const uint32_t id : ids) {
    const std::string piece = stream.step(id);
    EXPECT_EQ(piece.find("\uFFFD"), std::string::npos);
    longest = std::max(longest, piece.size());
    all += piece;
  }
  EXPECT_EQ(all, tokenizer->decode(ids));
  EXPECT_EQ(all.size(), 3u * 5001u);
  EXPECT_LT(longest, 3u * 1100u);  // not all at the end
}

TEST(ToValidUtf8, ReplacesAsPythonDoes) {
  // bytes.decode("utf-8", "replace")
  EXPECT_EQ(to_valid_utf8("a\xFF"
                          "b"),
            "a\uFFFDb");
  EXPECT_EQ(to_valid_utf8("\xE6\x97"), "\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xE6\x97"
                          "x"),
            "\uFFFDx");
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98\xE6"), "\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xE0\x80\xAF"), "\uFFFD\uFFFD\uFFFD");
}

TEST(BpeMerge, BothLoopsJoinTheSameNeighbours) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    // A random table: pairs of ids below 40 merge, some with equal ranks.
    std::vector<BpeJoin> table(1600);
    for (BpeJoin& join : table) {
      join = random() % 3 == 0 ? BpeJoin{static_cast<uint32_t>(random() % 200),
                                         static_cast<uint32_t>(random() % 40)}
                               : BpeJoin{kNoRank, 0};
    }
    const auto join = [&](const BpeSymbol& a, const BpeSymbol& b) {
      return table[a.id * 40 + b.id];
    };
    BpeWork one;
    for (uint32_t i = 0; i < 1 + random() % 100; ++i) {
      one.symbols.push_back({static_cast<uint32_t>(random() % 40), i, 1});
    }
    BpeWork other;
    other.symbols = one.symbols;
    merge_short(one, join);
    merge_long(other, join);
    ASSERT_EQ(one.symbols.size(), other.symbols.size());
    for (size_t i = 0; i < one.symbols.size(); ++i) {
      EXPECT_EQ(one.symbols[i].id, other.symbols[i].id);
      EXPECT_EQ(one.symbols[i].begin, other.symbols[i].begin);
      EXPECT_EQ(one.symbols[i].size, other.symbols[i].size);
    }
  }
}

TEST(Tokenizer, HasEqualResultsInManyThreads) {
  const auto tokenizer = load_tokenizer("examples/tokenizer");
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) texts.push_back(fmt::format("text {} of the many, {}", i, i * i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  ThreadPool pool(4);
  const std::vector<Encoding> batch = tokenizer->encode_batch(views, {}, &pool);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(batch[i].ids, tokenizer->encode(texts[i]).ids);
    EXPECT_EQ(tokenizer->decode(batch[i].ids), texts[i]);
  }
}

}  // namespace
}  // namespace lathe::tokenizer

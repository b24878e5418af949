// SPDX-License-Identifier: MIT
#include "llm/tokenizer/unicode/unicode.h"

#include <unordered_map>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer::unicode {
namespace {

constexpr NamedTable kUnicodeTables[] = {
#include "llm/tokenizer/unicode/sets.inc"
};

std::string_view unicode_table(std::string_view name) {
  for (const NamedTable& table : kUnicodeTables) {
    if (table.name == name) return table.numbers;
  }
  return {};
}

constexpr std::string_view kFlagNames[] = {
    "white_space",  "numeric",    "word",         "space",      "punctuation",
    "bert_removed", "bert_space", "bert_chinese", "nonspacing", "combining"};

std::vector<uint16_t> paint_flags() {
  std::vector<uint16_t> all(kLast + 1);
  for (size_t i = 0; i < std::size(kFlagNames); ++i) {
    for (const auto [first, last] : read_set(unicode_table(kFlagNames[i]))) {
      for (char32_t c = first; c <= last; ++c) all[c] |= static_cast<uint16_t>(1u << i);
    }
  }
  return all;
}

std::vector<uint8_t> paint_scripts() {
  std::vector<uint8_t> all(kLast + 1);
  char32_t end = 0;
  for (NumberReader reader(unicode_table("scripts")); !reader.at_end();) {
    const char32_t first = end + reader.next();
    end = first + reader.next();
    const uint32_t script = reader.next();
    for (char32_t c = first; c < end; ++c) all[c] = static_cast<uint8_t>(script);
  }
  return all;
}

// Differences to lower case by index, and characters whose lower case has several characters.
struct Lowercase {
  std::vector<int32_t> differences{0};
  std::unordered_map<char32_t, std::u32string> several;
  TwoStage<uint16_t> index{paint()};

 private:
  std::vector<uint16_t> paint() {
    std::vector<uint16_t> all(kLast + 1);
    std::unordered_map<int32_t, uint16_t> known;
    char32_t end = 0;
    for (NumberReader reader(unicode_table("lower")); !reader.at_end();) {
      char32_t c = end + reader.next();
      const uint32_t count = reader.next(), step = reader.next();
      const int32_t difference = reader.next_signed();
      const auto [it, added] = known.emplace(difference, static_cast<uint16_t>(differences.size()));
      if (added) differences.push_back(difference);
      for (uint32_t i = 0; i < count; ++i, c += step) all[c] = it->second;
      end = c - step + 1;
    }
    for (NumberReader reader(unicode_table("lower_several")); !reader.at_end();) {
      const char32_t c = reader.next();
      std::u32string& lower = several[c];
      lower.resize(reader.next());
      for (char32_t& x : lower) x = reader.next();
    }
    return all;
  }
};

const Lowercase& lowercase() {
  static const Lowercase table;
  return table;
}

}  // namespace

uint16_t flags(char32_t character) {
  static const TwoStage<uint16_t> table(paint_flags());
  return table[character];
}

uint8_t script(char32_t character) {
  static const TwoStage<uint8_t> table(paint_scripts());
  return table[character];
}

char32_t to_lower(char32_t character) {
  const Lowercase& table = lowercase();
  return character + static_cast<char32_t>(table.differences[table.index[character]]);
}

const std::u32string* to_lower_several(char32_t character) {
  const auto& several = lowercase().several;
  const auto it = several.find(character);
  return it == several.end() ? nullptr : &it->second;
}

void append(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const uint8_t lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xC2 || lead > 0xF4) return i;
    const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (text.size() - i < size) return i;
    // The second byte reveals overlong forms, surrogates and values above U+10FFFF.
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (size_t k = 2; k < size; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    i += size;
  }
  return std::string_view::npos;
}

}  // namespace lathe::tokenizer::unicode

// SPDX-License-Identifier: MIT
// Character properties of `tokenizers`. Its components have different versions of Unicode; the
// tables match each of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::tokenizer::unicode {

inline constexpr char32_t kLast = 0x10FFFF;

// Decodes the character at `at` of valid UTF-8 and moves `at` behind it.
inline char32_t next(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = byte(at);
  if (first < 0x80) return ++at, first;
  if (first < 0xE0) return at += 2, (first & 0x1F) << 6 | (byte(at - 1) & 0x3F);
  if (first < 0xF0) {
    return at += 3, (first & 0x0F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
  }
  return at += 4, (first & 0x07) << 18 | (byte(at - 3) & 0x3F) << 12 | (byte(at - 2) & 0x3F) << 6 |
                      (byte(at - 1) & 0x3F);
}
// The size in bytes of a character with lead byte `lead`.
inline size_t length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// The begin of the character that ends at `at`.
inline size_t previous(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}
void append(std::string& text, char32_t character);

// Properties, each with the Unicode version of its user in `tokenizers`.
enum Flag : uint16_t {
  kWhiteSpace = 1 << 0,   // Rust's char::is_whitespace
  kNumeric = 1 << 1,      // char::is_numeric
  kWord = 1 << 2,         // \w of Rust's `regex`: Whitespace, single_word tokens
  kSpace = 1 << 3,        // \s of Rust's `regex`
  kPunctuation = 1 << 4,  // Punctuation, BertPreTokenizer
  kBertRemoved = 1 << 5,  // BertNormalizer: controls, formats and the like
  kBertSpace = 1 << 6,    // BertNormalizer: becomes a space
  kBertChinese = 1 << 7,  // BertNormalizer: gets spaces around it
  kNonspacing = 1 << 8,   // BertNormalizer: stripped accents, after NFD
  kCombining = 1 << 9,    // StripAccents: stripped
};
uint16_t flags(char32_t character);
inline bool is(char32_t character, uint16_t any_of) { return (flags(character) & any_of) != 0; }
inline bool is_white_space(char32_t character) { return is(character, kWhiteSpace); }
inline bool is_word(char32_t character) { return is(character, kWord); }
inline bool is_space(char32_t character) { return is(character, kSpace); }

// Classes of UnicodeScripts; 0 matches every other.
uint8_t script(char32_t character);

// Lower case without context. to_lower() does not change characters whose lower case has several
// characters; to_lower_several() returns them, else nullptr.
char32_t to_lower(char32_t character);
const std::u32string* to_lower_several(char32_t character);

// Offset of the first byte that is not part of valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lathe::tokenizer::unicode

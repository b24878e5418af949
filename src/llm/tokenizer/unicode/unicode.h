// SPDX-License-Identifier: MIT
// Characters as `tokenizers` sees them. Its parts carry different versions of Unicode, and so do
// these tables, which are fitted to it.
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
// Bytes of the character that `lead` starts.
inline size_t length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// Where the character that ends at `at` begins.
inline size_t previous(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}
void append(std::string& text, char32_t character);

// What a character is, each as the part of `tokenizers` that asks for it knows it.
enum Flag : uint16_t {
  kWhiteSpace = 1 << 0,   // char::is_whitespace of Rust's standard library
  kNumeric = 1 << 1,      // char::is_numeric
  kWord = 1 << 2,         // \w of Rust's `regex`: Whitespace, added tokens that want whole words
  kSpace = 1 << 3,        // \s of the same
  kPunctuation = 1 << 4,  // Punctuation, BertPreTokenizer
  kBertRemoved = 1 << 5,  // BertNormalizer: controls, formats and the like
  kBertSpace = 1 << 6,    // what it writes as a space
  kBertChinese = 1 << 7,  // what it puts spaces around
  kNonspacing = 1 << 8,   // what it strips as an accent, after NFD
  kCombining = 1 << 9,    // what StripAccents strips
};
uint16_t flags(char32_t character);
inline bool is(char32_t character, uint16_t any_of) { return (flags(character) & any_of) != 0; }
inline bool is_white_space(char32_t character) { return is(character, kWhiteSpace); }
inline bool is_word(char32_t character) { return is(character, kWord); }
inline bool is_space(char32_t character) { return is(character, kSpace); }

// Classes of UnicodeScripts; 0 goes with every other.
uint8_t script(char32_t character);

// Lower case by itself, whatever stands around it. The few characters that become several are
// unchanged by to_lower() and found by to_lower_several() (else nullptr).
char32_t to_lower(char32_t character);
const std::u32string* to_lower_several(char32_t character);

// Offset of the first byte that is not part of valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lathe::tokenizer::unicode

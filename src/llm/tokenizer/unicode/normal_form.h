// SPDX-License-Identifier: MIT
// What the four normal forms of Unicode need to know about characters.
#pragma once

#include <cstdint>
#include <string_view>

namespace lathe::tokenizer::unicode {

enum class Form : uint8_t { nfc, nfd, nfkc, nfkd };

// Whether `character` is left alone by the form wherever it stands, and keeps what is before it
// from what is after it: a text may be cut before it.
bool is_inert(char32_t character, Form form);

// The full decomposition; empty if there is none. Hangul syllables are not covered.
std::u32string_view decomposition(char32_t character, bool compatible);
uint8_t combining_class(char32_t character);
// The character that two compose to, Hangul included, or 0.
char32_t compose(char32_t first, char32_t second);

namespace hangul {
inline constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
inline constexpr char32_t kVowels = 21, kTails = 28, kSyllables = 19 * kVowels * kTails;
}  // namespace hangul

}  // namespace lathe::tokenizer::unicode

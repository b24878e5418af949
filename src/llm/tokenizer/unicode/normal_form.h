// SPDX-License-Identifier: MIT
// Character properties for Unicode normalisation.
#pragma once

#include <cstdint>
#include <string_view>

namespace lathe::tokenizer::unicode {

enum class Form : uint8_t { nfc, nfd, nfkc, nfkd };

// True if the form never changes `character` and it does not interact with its neighbours: a text
// may be split before it.
bool is_inert(char32_t character, Form form);

// The full decomposition, or empty. Excludes Hangul syllables.
std::u32string_view decomposition(char32_t character, bool compatible);
uint8_t combining_class(char32_t character);
// The composition of two characters, including Hangul, or 0.
char32_t compose(char32_t first, char32_t second);

namespace hangul {
inline constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
inline constexpr char32_t kVowels = 21, kTails = 28, kSyllables = 19 * kVowels * kTails;
}  // namespace hangul

}  // namespace lathe::tokenizer::unicode

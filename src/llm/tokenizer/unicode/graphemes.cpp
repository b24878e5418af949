// SPDX-License-Identifier: MIT
#include "llm/tokenizer/unicode/graphemes.h"

#include "llm/tokenizer/unicode/tables.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer::unicode {
namespace {

constexpr NamedTable kGraphemeTables[] = {
#include "llm/tokenizer/unicode/graphemes.inc"
};

enum Kind : uint16_t {  // in the order of the written sets
  kControl = 1 << 0,
  kExtend = 1 << 1,
  kSpacing = 1 << 2,
  kPrepend = 1 << 3,
  kPictographic = 1 << 4,
  kLead = 1 << 5,
  kVowel = 1 << 6,
  kTail = 1 << 7,
  kLeadVowel = 1 << 8,
  kSyllable = 1 << 9,
  kConsonant = 1 << 10,
  kLinker = 1 << 11,
  kConjunct = 1 << 12,
};

std::vector<uint16_t> paint() {
  std::vector<uint16_t> all(kLast + 1);
  for (size_t i = 0; i < std::size(kGraphemeTables); ++i) {
    for (const auto [first, last] : read_set(kGraphemeTables[i].numbers)) {
      for (char32_t c = first; c <= last; ++c) all[c] |= static_cast<uint16_t>(1u << i);
    }
  }
  return all;
}

uint16_t kinds(char32_t character) {
  static const TwoStage<uint16_t> table(paint());
  return table[character];
}

constexpr char32_t kJoiner = 0x200D;
bool is_regional(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }

bool hangul_goes_on(uint16_t before, uint16_t after) {
  if (before & kLead) return after & (kLead | kVowel | kLeadVowel | kSyllable);
  if (before & (kVowel | kLeadVowel)) return after & (kVowel | kTail);
  return before & (kTail | kSyllable) && after & kTail;
}

}  // namespace

size_t grapheme_end(std::string_view text, size_t at) {
  char32_t before = next(text, at);
  uint16_t before_kinds = kinds(before);
  bool pictographic = before_kinds & kPictographic;  // with its extending characters
  bool conjunct = before_kinds & kConsonant, linked = false;
  bool regional = is_regional(before);  // the count is odd
  while (at < text.size()) {
    size_t end = at;
    const char32_t c = next(text, end);
    const uint16_t kind = kinds(c);
    if (before == '\r' && c == '\n') return end;
    if ((before_kinds | kind) & kControl) return at;
    const bool extends = kind & kExtend || c == kJoiner;
    const bool goes_on = extends || kind & kSpacing || before_kinds & kPrepend ||
                         hangul_goes_on(before_kinds, kind) ||
                         (pictographic && before == kJoiner && kind & kPictographic) ||
                         (conjunct && linked && kind & kConsonant) || (regional && is_regional(c));
    if (!goes_on) return at;
    if (!extends) pictographic = kind & kPictographic;
    if (kind & kConsonant) {
      conjunct = true;
      linked = false;
    } else if (kind & kLinker) {
      linked = true;
    } else if (!(kind & kConjunct)) {
      conjunct = false;
    }
    regional = is_regional(c) && !regional;
    before = c;
    before_kinds = kind;
    at = end;
  }
  return at;
}

}  // namespace lathe::tokenizer::unicode

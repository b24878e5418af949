// SPDX-License-Identifier: MIT
// The tables of unicode.h.
#pragma once

#include <cstdint>
#include <span>

namespace lathe::templates {

// Bits in the order of FLAGS in scripts/make_python_unicode.py.
enum CharacterFlag : uint16_t {
  kSpace = 1 << 0,
  kAlphabetic = 1 << 1,
  kDecimal = 1 << 2,
  kDigit = 1 << 3,
  kNumeric = 1 << 4,
  kPrintable = 1 << 5,
  kLower = 1 << 6,
  kUpper = 1 << 7,
  kTitle = 1 << 8,
  kIdentifierStart = 1 << 9,
  kIdentifierPart = 1 << 10,
  kCaseIgnorable = 1 << 11,
  kCased = 1 << 12,
};

struct FlagRange {
  char32_t first;  // the range ends before the next one
  uint16_t flags;
};
struct CaseRun {
  char32_t first;
  char32_t last;
  uint8_t stride;
  int32_t delta;
};
struct CaseSpecial {
  char32_t from;
  char32_t to[3];  // 0-terminated
};
struct CaseTable {
  std::span<const CaseRun> runs;
  std::span<const CaseSpecial> specials;
};

extern const std::span<const FlagRange> flag_ranges;
extern const std::span<const char32_t> decimal_zeros;
extern const CaseTable lower_table;
extern const CaseTable upper_table;
extern const CaseTable title_table;
extern const CaseTable fold_table;

}  // namespace lathe::templates

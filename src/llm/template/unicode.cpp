// SPDX-License-Identifier: MIT
#include "llm/template/unicode.h"

#include <algorithm>

#include "llm/template/unicode_tables.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

uint16_t flags_of(char32_t character) {
  const auto after =
      std::upper_bound(flag_ranges.begin(), flag_ranges.end(), character,
                       [](char32_t value, const FlagRange& range) { return value < range.first; });
  return std::prev(after)->flags;
}

bool has(char32_t character, uint16_t flags) { return (flags_of(character) & flags) != 0; }

void append_mapped(std::string& text, const CaseTable& table, char32_t character) {
  const auto run = std::lower_bound(
      table.runs.begin(), table.runs.end(), character,
      [](const CaseRun& candidate, char32_t value) { return candidate.last < value; });
  if (run != table.runs.end() && character >= run->first &&
      (character - run->first) % run->stride == 0) {
    append_character(text, static_cast<char32_t>(static_cast<int32_t>(character) + run->delta));
    return;
  }
  const auto special = std::lower_bound(
      table.specials.begin(), table.specials.end(), character,
      [](const CaseSpecial& candidate, char32_t value) { return candidate.from < value; });
  if (special != table.specials.end() && special->from == character) {
    for (const char32_t to : special->to) {
      if (to != 0) append_character(text, to);
    }
    return;
  }
  append_character(text, character);
}

constexpr char32_t kCapitalSigma = 0x3a3;

// Capital sigma has another lower case at the end of a word: after a cased letter, before none.
bool is_final(std::string_view text, size_t begin, size_t end) {
  bool is_after_cased = false;
  for (size_t at = begin; at > 0;) {
    at = previous_character(text, at);
    size_t next = at;
    const char32_t c = next_character(text, next);
    if (is_case_ignorable(c)) continue;
    is_after_cased = is_cased(c);
    break;
  }
  if (!is_after_cased) return false;
  for (size_t at = end; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c == kCapitalSigma) {
    append_character(out, is_final(text, begin, end) ? 0x3c2 : 0x3c3);
  } else {
    append_mapped(out, lower_table, c);
  }
}

std::string mapped(std::string_view text, const CaseTable& table) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_mapped(out, table, next_character(text, at));
  return out;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return has(c, kSpace);
}
bool is_alphabetic(char32_t c) { return has(c, kAlphabetic); }
bool is_decimal(char32_t c) { return has(c, kDecimal); }
bool is_digit(char32_t c) { return has(c, kDigit); }
bool is_numeric(char32_t c) { return has(c, kNumeric); }
bool is_alphanumeric(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  return has(c, kAlphabetic | kDecimal | kDigit | kNumeric);
}
bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  return has(c, kPrintable);
}
bool is_lower(char32_t c) { return has(c, kLower); }
bool is_upper(char32_t c) { return has(c, kUpper); }
bool is_title(char32_t c) { return has(c, kTitle); }
bool is_cased(char32_t c) { return has(c, kCased); }
bool is_case_ignorable(char32_t c) { return has(c, kCaseIgnorable); }
bool is_identifier_start(char32_t c) { return has(c, kIdentifierStart); }
bool is_identifier_part(char32_t c) { return has(c, kIdentifierPart); }

int decimal_digit(char32_t c) {
  const auto after = std::upper_bound(decimal_zeros.begin(), decimal_zeros.end(), c);
  if (after == decimal_zeros.begin() || c - *std::prev(after) > 9) return -1;
  return static_cast<int>(c - *std::prev(after));
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string upper(std::string_view text) { return mapped(text, upper_table); }
std::string fold_case(std::string_view text) { return mapped(text, fold_table); }

std::string title(std::string_view text) {
  std::string out;
  bool is_inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_inside) {
      append_lower(out, text, begin, at, c);
    } else {
      append_mapped(out, title_table, c);
    }
    is_inside = has(c, kLower | kUpper | kTitle | kCased);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (begin == 0) {
      append_mapped(out, title_table, c);
    } else {
      append_lower(out, text, begin, at, c);
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_upper(c)) {
      append_lower(out, text, begin, at, c);
    } else if (is_lower(c)) {
      append_mapped(out, upper_table, c);
    } else {
      append_character(out, c);
    }
  }
  return out;
}

std::string_view strip_left(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t next = begin;
    if (!is_space(next_character(text, next))) break;
    begin = next;
  }
  return text.substr(begin);
}

std::string_view strip_right(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = previous_character(text, end);
    size_t next = begin;
    if (!is_space(next_character(text, next))) break;
    end = begin;
  }
  return text.substr(0, end);
}

}  // namespace lathe::templates

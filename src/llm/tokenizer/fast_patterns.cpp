// SPDX-License-Identifier: MIT
#include "llm/tokenizer/fast_patterns.h"

#include <algorithm>
#include <array>

#include "llm/tokenizer/unicode/code_set.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

enum Kind : uint8_t {
  kLetter = 1 << 0,
  kNumber = 1 << 1,
  kSpace = 1 << 2,
  kNewline = 1 << 3,  // \r and \n
  kUpper = 1 << 4,    // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLower = 1 << 5,    // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  kEnd = 1 << 7,      // the end of the text
};
constexpr unsigned kNoOther = kLetter | kNumber | kSpace | kEnd;  // else [^\s\p{L}\p{N}]

struct Kinds {
  std::array<uint8_t, 128> ascii;
  unicode::TwoStage<uint8_t> all;

  explicit Kinds(const std::vector<uint8_t>& painted) : all(painted) {
    std::copy_n(painted.begin(), ascii.size(), ascii.begin());
  }

  static const Kinds& get() {
    static const Kinds kinds(paint());
    return kinds;
  }

 private:
  static std::vector<uint8_t> paint() {
    std::vector<uint8_t> painted(unicode::kLast + 1);
    const auto add = [&](const unicode::CodeSet& set, unsigned kind) {
      for (const auto [first, last] : set) {
        for (char32_t c = first; c <= last; ++c) painted[c] |= static_cast<uint8_t>(kind);
      }
    };
    add(*unicode::property("L"), kLetter);
    add(*unicode::property("N"), kNumber);
    add(unicode::escape_class('s'), kSpace);
    add({{'\n', '\n'}, {'\r', '\r'}}, kNewline);
    for (const char* name : {"Lu", "Lt"}) add(*unicode::property(name), kUpper);
    add(*unicode::property("Ll"), kLower);
    for (const char* name : {"Lm", "Lo", "M"}) add(*unicode::property(name), kUpper | kLower);
    return painted;
  }
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) : kinds_(Kinds::get()), text_(text) {}

  // Returns the kind of the character at `at` and moves `at` behind it.
  unsigned next(size_t& at) const {
    if (at >= text_.size()) return kEnd;
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) return ++at, kinds_.ascii[byte];
    return kinds_.all[unicode::next(text_, at)];
  }
  // The end of the run of characters from `at` on with a kind of `any` and none of `none`.
  size_t run(size_t at, unsigned any, unsigned none = 0) const {
    while (true) {
      size_t end = at;
      const unsigned kind = next(end);
      if ((kind & none) || (kind & kEnd) || (any != 0 && !(kind & any))) return at;
      at = end;
    }
  }
  size_t run_other(size_t at) const { return run(at, 0, kNoOther); }
  size_t run_at_most(size_t at, unsigned any, int count) const {
    for (size_t end = at; count > 0 && next(end) & any; --count) at = end;
    return at;
  }

  // The end of 's 't 're 've 'm 'll 'd at `at`, or `at`.
  size_t contraction(size_t at, bool ignore_case) const {
    if (at + 1 >= text_.size() || text_[at] != '\'') return at;
    const auto letter = [&](size_t i) -> char {
      if (i >= text_.size()) return 0;
      const char c = text_[i];
      return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char second = letter(at + 2);
    switch (letter(at + 1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return at + 2;
      case 'r':
      case 'v':
        return second == 'e' ? at + 3 : at;
      case 'l':
        return second == 'l' ? at + 3 : at;
      default:
        break;
    }
    // ſ equals s if case is ignored.
    return ignore_case && text_.substr(at + 1).starts_with("\xC5\xBF") ? at + 3 : at;
  }

  // The end of the white space at `at`: after its last newline if `newlines`, at the end of the
  // text, else before its last character if it has several.
  size_t white_space(size_t at, bool newlines) const {
    size_t last = at, newline = at;
    for (size_t end = at;;) {
      const size_t begin = end;
      const unsigned kind = next(end);
      if (!(kind & kSpace)) {
        if (newlines && newline > at) return newline;
        if (kind & kEnd || last == at) return begin;
        return last;
      }
      last = begin;
      if (kind & kNewline) newline = end;
    }
  }

 private:
  const Kinds& kinds_;
  std::string_view text_;
};

// 's|'t|…| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t scan_gpt2(const Scanner& in, std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t end = in.contraction(at, false); end > at) return end;
  }
  size_t behind = at;
  unsigned kind = in.next(behind);
  if (text[at] == ' ') {
    size_t second = behind;
    kind = in.next(second);
    if (kind & (kSpace | kEnd)) return in.white_space(at, false);
    behind = second;
  }
  if (kind & kLetter) return in.run(behind, kLetter);
  if (kind & kNumber) return in.run(behind, kNumber);
  if (kind & kSpace) return in.white_space(at, false);
  return in.run_other(behind);
}

// The common alternatives since GPT-4: numbers, ` ?[^\s\p{L}\p{N}]+` with newlines, white space.
template <int kDigits, bool kSlash, bool kWholeEnd>
size_t scan_rest(const Scanner& in, std::string_view text, size_t at, unsigned kind,
                 size_t behind) {
  if (kind & kNumber) return in.run_at_most(behind, kNumber, kDigits - 1);
  size_t other = behind;
  unsigned first = kind;
  if (text[at] == ' ') first = in.next(other);
  if (!(first & kNoOther)) {
    size_t end = in.run_other(other);
    while (end < text.size() &&
           (text[end] == '\r' || text[end] == '\n' || (kSlash && text[end] == '/'))) {
      ++end;
    }
    return end;
  }
  if (kWholeEnd && in.run(at, kSpace) == text.size()) return text.size();
  return in.white_space(at, true);
}

// (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <int kDigits, bool kWholeEnd>
size_t scan_cl100k(const Scanner& in, std::string_view text, size_t at) {
  if (text[at] == '\'') {
    if (const size_t end = in.contraction(at, true); end > at) return end;
  }
  size_t behind = at;
  const unsigned kind = in.next(behind);
  if (kind & kLetter) return in.run(behind, kLetter);
  if (!(kind & (kNewline | kNumber))) {
    size_t second = behind;
    if (in.next(second) & kLetter) return in.run(second, kLetter);
  }
  return scan_rest<kDigits, false, kWholeEnd>(in, text, at, kind, behind);
}

// The end of an o200k word (upper case, then lower case) at `at`, or `at`.
size_t scan_word(const Scanner& in, size_t at) {
  const size_t none = at;
  size_t last_both = none,
         behind_last = none;  // the last character of the run that is also lower case
  unsigned kind;
  size_t end = at;
  while ((kind = in.next(end)) & kUpper) {
    if (kind & kLower) {
      last_both = at;
      behind_last = end;
    }
    at = end;
  }
  if (kind & kLower) return in.run(end, kLower);
  return behind_last > last_both ? behind_last : none;
}

size_t scan_o200k(const Scanner& in, std::string_view text, size_t at) {
  size_t behind = at;
  const unsigned kind = in.next(behind);
  const bool prefix = !(kind & (kNewline | kLetter | kNumber));
  for (int lower = 1; lower >= 0; --lower) {  // first with lower case, then without
    for (const size_t start : {prefix ? behind : at, at}) {
      const size_t end = lower ? scan_word(in, start) : in.run(start, kUpper);
      if (end > start) return in.contraction(end, true);
    }
  }
  return scan_rest<3, true, false>(in, text, at, kind, behind);
}

using Scan = size_t (*)(const Scanner&, std::string_view, size_t);

template <Scan kScan>
void match_all(std::string_view text, std::vector<Range>& matches) {
  const Scanner scanner(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = kScan(scanner, text, at);
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end)});
    at = end;
  }
}

constexpr int kAnyDigits = 1 << 30;

struct Known {
  std::string_view pattern;
  FastPattern match;
};
constexpr Known kKnown[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     match_all<scan_gpt2>},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++\z|\s+(?!\S)|\s)",
     match_all<scan_gpt2>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_all<scan_cl100k<3, false>>},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+)"
     R"(|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)",
     match_all<scan_cl100k<3, true>>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_all<scan_cl100k<1, false>>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     match_all<scan_cl100k<kAnyDigits, false>>},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)",
     match_all<scan_o200k>},
};

}  // namespace

FastPattern find_fast_pattern(std::string_view pattern) {
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) return known.match;
  }
  return nullptr;
}

}  // namespace lathe::tokenizer

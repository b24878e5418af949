// SPDX-License-Identifier: MIT
// Reads the characters, escapes and bracket expressions of a pattern.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer {

// A position in a pattern.
class RegexReader {
 public:
  explicit RegexReader(std::string_view pattern) : text_(pattern) {}

  bool at_end() const { return at_ >= text_.size(); }
  size_t position() const { return at_; }
  void go_to(size_t position) { at_ = position; }
  char peek() const { return text_[at_]; }
  void skip(size_t bytes) { at_ = bytes < text_.size() - at_ ? at_ + bytes : text_.size(); }
  bool looking_at(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool at_any_of(std::string_view characters) const {
    return !at_end() && characters.find(text_[at_]) != std::string_view::npos;
  }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char32_t character();  // the next character
  std::optional<uint32_t> decimal();
  // Reads up to `most` digits.
  std::optional<char32_t> digits(int base, int most);
  // Reads the text up to `end` and skips `end`.
  std::string_view until(std::string_view end);

  [[noreturn]] void malformed(std::string_view what) const;
  [[noreturn]] void unsupported(std::string_view what) const;

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// Reads \w \s \d \h, their complements or \p{..} after the backslash; nullopt for others.
std::optional<unicode::CodeSet> read_class_escape(RegexReader& in, bool in_brackets);
// Reads one escaped character after the backslash.
char32_t read_character_escape(RegexReader& in, bool in_brackets);

// `set` before the negation, because case folding comes first.
struct CharacterClass {
  unicode::CodeSet set;
  bool negated = false;
};
// Reads from behind '[' up to and including ']'.
CharacterClass read_class(RegexReader& in, int depth);

}  // namespace lathe::tokenizer

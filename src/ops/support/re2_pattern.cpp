// SPDX-License-Identifier: MIT
#include "ops/support/re2_pattern.h"

#include "base/error.h"

namespace lathe {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_among(char c, std::string_view all) { return all.find(c) != std::string_view::npos; }
bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Translation {
 public:
  explicit Translation(std::string_view pattern) : in_(pattern) {}

  Re2Pattern run() {
    while (at_ < in_.size() && problem_.empty()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_character();
      } else if (c == '[') {
        open_class();
      } else if (c == '(') {
        group();
      } else if (c == '*' || c == '+' || c == '?') {
        repetition(1);
      } else if (const size_t size = counted(); size > 0) {
        repetition(size);
      } else {
        take(1);
      }
    }
    return {std::move(out_), std::move(problem_)};
  }

 private:
  char next(size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  void take(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }
  void replace(size_t count, std::string_view by) {
    out_ += by;
    at_ += count;
  }
  void refuse(size_t count) {
    problem_ = fmt::format("RE2 has no '{}' (at offset {})",
                           lathe::escape(std::string(in_.substr(at_, count))), at_);
  }

  void open_class() {
    in_class_ = true;
    take(next(1) == '^' ? 2 : 1);
    if (next(0) == ']') replace(1, "\\]");  // the first is no end
  }
  void class_character() {
    if (in_[at_] == '[' && next(1) == ':') {  // [:alpha:]
      const size_t end = in_.find(":]", at_ + 2);
      return take(end == std::string_view::npos ? 1 : end + 2 - at_);
    }
    if (in_[at_] == '[') return replace(1, "\\[");
    in_class_ = in_[at_] != ']';
    take(1);
  }
  // Behind a set, a hyphen is one of the characters.
  void hyphen() {
    if (in_class_ && next(0) == '-') replace(1, "\\-");
  }

  void group() {
    if (next(1) == '*') return refuse(2);
    if (next(1) != '?') return take(1);
    if (next(2) == 'P' && next(3) == '<') return take(4);
    if (next(2) == '<' && is_letter_or_digit(next(3))) return take(3);
    size_t end = at_ + 2;  // of flags
    while (end < in_.size() && is_among(in_[end], "imsU-")) ++end;
    const bool ends = end < in_.size() && (in_[end] == ':' || (in_[end] == ')' && end > at_ + 2));
    ends ? take(end - at_) : refuse(3);
  }

  // Characters of {2}, {2,} or {2,3}; 0: a brace of its own.
  size_t counted() const {
    if (in_[at_] != '{') return 0;
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < in_.size() && in_[end] >= '0' && in_[end] <= '9') ++end;
      return end > begin;
    };
    if (!digits()) return 0;
    if (end < in_.size() && in_[end] == ',') {
      ++end;
      digits();
    }
    return end < in_.size() && in_[end] == '}' ? end + 1 - at_ : 0;
  }
  void repetition(size_t size) {
    if (next(size) == '?') ++size;
    const size_t begin = at_;
    take(size);
    // Possessive ones among them.
    if (at_ < in_.size() && (is_among(in_[at_], "*+?") || counted() > 0)) {
      at_ = begin;
      refuse(size + 1);
    }
  }

  void escape() {
    const char c = next(1);
    if (c == 'Q') {  // up to \E, literally
      const size_t end = in_.find("\\E", at_ + 2);
      const std::string_view all =
          in_.substr(at_ + 2, end == std::string_view::npos ? end : end - at_ - 2);
      for (const char each : all) {
        if (static_cast<uint8_t>(each) < 0x80 && !is_letter_or_digit(each)) out_ += '\\';
        out_ += each;
      }
      at_ = end == std::string_view::npos ? in_.size() : end + 2;
      return;
    }
    if (c >= '1' && c <= '9') {
      if (!is_octal(c) || !is_octal(next(2))) return refuse(2);  // a reference
    }
    if (is_octal(c)) {
      size_t size = 1;
      while (size < 4 && is_octal(next(size))) ++size;
      return replace(size, fmt::format("\\o{{{}}}", in_.substr(at_ + 1, size - 1)));
    }
    switch (c) {
      case 's':
        replace(2, in_class_ ? "\\t\\n\\f\\r " : "[\\t\\n\\f\\r ]");
        return hyphen();
      case 'S':  // PCRE2 takes a vertical tab for a space
        replace(2, in_class_ ? "\\S\\x0b" : "[^\\t\\n\\f\\r ]");
        return hyphen();
      case 'd':
      case 'D':
      case 'w':
      case 'W':
        take(2);
        return hyphen();
      case 'v':
        return replace(2, "\\x0b");
      case 'z':
      case 'A':
      case 'b':
      case 'B':
        return in_class_ ? refuse(2) : take(2);
      case 'x':
      case 'p':
      case 'P': {  // braces of theirs are no counts
        const size_t end = next(2) == '{' ? in_.find('}', at_) : std::string_view::npos;
        return take(end == std::string_view::npos ? 2 : end + 1 - at_);
      }
      default:
        if (is_letter_or_digit(c) && !is_among(c, "afnrt")) return refuse(2);
        take(2);
    }
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
  std::string problem_;
};

}  // namespace

Re2Pattern re2_pattern(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace lathe

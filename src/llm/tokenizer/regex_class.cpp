// SPDX-License-Identifier: MIT
#include "llm/tokenizer/regex_class.h"

#include "base/error.h"
#include "llm/tokenizer/unicode/code_set.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

using unicode::CodeSet;

constexpr int kMaxDepth = 50;

// Reads "[:name:]" after its '['; nullopt for other text.
std::optional<CodeSet> read_posix(RegexReader& in) {
  if (!in.looking_at(":")) return std::nullopt;
  const size_t start = in.position();
  in.skip(1);
  const bool negated = in.take('^');
  std::string name;
  while (!in.at_end() && in.peek() >= 'a' && in.peek() <= 'z')
    name += static_cast<char>(in.character());
  std::optional<CodeSet> set;
  if (in.looking_at(":]")) set = unicode::posix_class(name);
  if (!set) {
    in.go_to(start);
    return std::nullopt;
  }
  in.skip(2);
  return negated ? unicode::complement(*set) : *set;
}

CodeSet effective(const CharacterClass& cls) {
  return cls.negated ? unicode::complement(cls.set) : cls.set;
}

// Reads the bytes of a non-ASCII character, each as \xHH, after the lead byte.
char32_t read_raw_bytes(RegexReader& in, char32_t lead) {
  std::string bytes(1, static_cast<char>(lead));
  while (bytes.size() < 4 && in.looking_at("\\x") && unicode::find_invalid_utf8(bytes) == 0) {
    in.skip(2);
    bytes += static_cast<char>(in.digits(16, 2).value_or(0));
  }
  if (unicode::find_invalid_utf8(bytes) != std::string_view::npos) {
    in.unsupported("a byte that is not a character");
  }
  size_t at = 0;
  return unicode::next(bytes, at);
}

}  // namespace

char32_t RegexReader::character() { return unicode::next(text_, at_); }

std::optional<uint32_t> RegexReader::decimal() {
  const size_t start = at_;
  uint32_t value = 0;
  for (; !at_end() && peek() >= '0' && peek() <= '9'; ++at_) {
    value = std::min(value * 10 + static_cast<uint32_t>(peek() - '0'), 1000000u);
  }
  if (at_ == start) return std::nullopt;
  return value;
}

std::optional<char32_t> RegexReader::digits(int base, int most) {
  char32_t value = 0;
  int count = 0;
  for (; count < most && !at_end(); ++count, ++at_) {
    const char c = peek();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
    if (digit >= base) break;
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
  }
  if (count == 0) return std::nullopt;
  return value;
}

std::string_view RegexReader::until(std::string_view end) {
  const size_t found = text_.find(end, at_);
  if (found == std::string_view::npos) malformed(fmt::format("'{}' is missing", end));
  const std::string_view before = text_.substr(at_, found - at_);
  at_ = found + end.size();
  return before;
}

void RegexReader::malformed(std::string_view what) const {
  fail(ErrorKind::invalid_model, "regular expression '{}' is malformed at byte {}: {}",
       escape(text_), at_, what);
}

void RegexReader::unsupported(std::string_view what) const {
  fail(ErrorKind::unsupported,
       "regular expression '{}' has an unsupported construct at byte {}: {}", escape(text_), at_,
       what);
}

std::optional<CodeSet> read_class_escape(RegexReader& in, bool in_brackets) {
  const char c = in.peek();
  switch (c) {
    case 'w':
    case 's':
    case 'd':
    case 'h':
      in.skip(1);
      return unicode::escape_class(c, in_brackets);
    case 'W':
    case 'S':
    case 'D':
    case 'H':
      in.skip(1);
      return unicode::complement(unicode::escape_class(static_cast<char>(c + 32), in_brackets));
    default:
      break;
  }
  if (!in.looking_at("p{") && !in.looking_at("P{")) return std::nullopt;
  in.skip(2);
  const bool negated = (c == 'P') != in.take('^');
  const std::string_view name = in.until("}");
  std::optional<CodeSet> set = unicode::property(name);
  if (set && in_brackets && unicode::names_word(name)) set = unicode::posix_class("word");
  if (!set) in.unsupported(fmt::format("property '{}'", escape(name)));
  return negated ? unicode::complement(*set) : *set;
}

char32_t read_character_escape(RegexReader& in, bool in_brackets) {
  const char32_t c = in.character();
  const auto need = [&](std::optional<char32_t> value) {
    if (!value) in.malformed("digits are missing");
    if (*value > unicode::kLast || (*value >= 0xD800 && *value < 0xE000)) {
      in.malformed(fmt::format("U+{:X} is not a character", static_cast<uint32_t>(*value)));
    }
    return *value;
  };
  switch (c) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case 'b':
      if (in_brackets) return '\b';
      break;
    case 'u':
      return need(in.digits(16, 4));
    case 'x': {
      if (in.take('{')) {
        const char32_t value = need(in.digits(16, 8));
        if (!in.take('}')) in.malformed("'}' is missing");
        return value;
      }
      const char32_t value = in.digits(16, 2).value_or(0);
      return value < 0x80 ? value : read_raw_bytes(in, value);
    }
    case '0':
      return in.digits(8, 2).value_or(0);
    case 'k':
    case 'g':
    case 'X':
    case 'y':
    case 'Y':
    case 'c':
    case 'C':
    case 'M':
      if (!in_brackets || c == 'c' || c == 'C' || c == 'M') {
        in.unsupported(fmt::format("\\{}", static_cast<char>(c)));
      }
      break;
    default:
      break;
  }
  if (c >= '1' && c <= '9') in.unsupported("a back reference");
  return c;
}

CharacterClass read_class(RegexReader& in, int depth) {
  if (depth > kMaxDepth) in.unsupported(fmt::format("more than {} nested classes", kMaxDepth));
  CharacterClass result{.set = {}, .negated = in.take('^')};
  std::optional<CodeSet> left;  // left operand of &&
  CodeSet set;
  bool first = true;
  for (;; first = false) {
    if (in.at_end()) in.malformed("a character class does not end");
    if (in.peek() == ']' && !first) break;
    if (in.looking_at("&&")) {
      in.skip(2);
      left = left ? unicode::intersect(*left, unicode::unite(set, {})) : unicode::unite(set, {});
      set.clear();
      continue;
    }
    if (in.take('[')) {
      const std::optional<CodeSet> posix = read_posix(in);
      const CodeSet inner = posix ? *posix : effective(read_class(in, depth + 1));
      set.insert(set.end(), inner.begin(), inner.end());
      continue;
    }
    char32_t low;
    if (in.take('\\')) {
      if (in.at_end()) in.malformed("it ends with a backslash");
      if (const std::optional<CodeSet> named = read_class_escape(in, true)) {
        set.insert(set.end(), named->begin(), named->end());
        continue;
      }
      low = read_character_escape(in, true);
    } else {
      low = in.character();
    }
    char32_t high = low;
    if (in.looking_at("-") && !in.looking_at("-]") && !in.looking_at("-[") &&
        !in.looking_at("-&&")) {
      const size_t dash = in.position();
      in.skip(1);
      if (in.at_end()) in.malformed("a character class does not end");
      if (in.take('\\')) {
        if (in.at_end()) in.malformed("it ends with a backslash");
        if (read_class_escape(in, true))
          in.go_to(dash);  // the dash is a character
        else
          high = read_character_escape(in, true);
      } else {
        high = in.character();
      }
      if (high < low) in.malformed("the bounds of a range are reversed");
    }
    set.push_back({low, high});
  }
  in.skip(1);
  result.set = unicode::unite(set, {});
  if (left) result.set = unicode::intersect(*left, result.set);
  return result;
}

}  // namespace lathe::tokenizer

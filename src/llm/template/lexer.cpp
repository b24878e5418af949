// SPDX-License-Identifier: MIT
#include "llm/template/lexer.h"

#include <algorithm>
#include <array>

#include "llm/template/string_literal.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

// Longer symbols first.
constexpr std::array<std::string_view, 26> kSymbols{
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit_of(char c, int base) {
  if (base == 16) return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  return c >= '0' && c < '0' + base;
}

// Digits with single underscores before any of them: (_?[digit])*
size_t after_digits(std::string_view text, size_t at, int base) {
  while (at < text.size()) {
    size_t next = at;
    if (text[next] == '_') ++next;
    if (next >= text.size() || !is_digit_of(text[next], base)) break;
    at = next + 1;
  }
  return at;
}

// The end of (\d+_)*\d+, or `at` without a match.
size_t after_decimals(std::string_view text, size_t at) {
  if (at >= text.size() || !is_digit_of(text[at], 10)) return at;
  return after_digits(text, at, 10);
}

size_t after_float(std::string_view text, size_t at) {
  const size_t whole = after_decimals(text, at);
  if (whole == at) return at;
  size_t end = whole;
  bool has_fraction = false;
  if (end < text.size() && text[end] == '.') {
    const size_t fraction = after_decimals(text, end + 1);
    has_fraction = fraction > end + 1;
    if (has_fraction) end = fraction;
  }
  if (end < text.size() && (text[end] | 0x20) == 'e') {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const size_t exponent = after_decimals(text, digits);
    if (exponent > digits) return exponent;
  }
  return has_fraction ? end : at;
}

size_t after_integer(std::string_view text, size_t at) {
  if (at >= text.size() || !is_digit_of(text[at], 10)) return at;
  if (text[at] != '0') return after_digits(text, at + 1, 10);
  if (at + 1 < text.size()) {
    const char prefix = static_cast<char>(text[at + 1] | 0x20);
    const int base = prefix == 'b' ? 2 : prefix == 'o' ? 8 : prefix == 'x' ? 16 : 0;
    if (base != 0) {
      const size_t end = after_digits(text, at + 2, base);
      if (end > at + 2) return end;
    }
  }
  return after_digits(text, at + 1, 1);
}

}  // namespace

std::string Token::described() const {
  switch (kind) {
    case TokenKind::end:
      return "end of template";
    case TokenKind::data:
      return "template data / text";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::string:
      return "string";
    case TokenKind::number:
      return is_integer ? "integer" : "float";
    default:
      return text;
  }
}

void raise_syntax(std::string text, uint32_t line, Exception exception) {
  throw TemplateError(exception, std::move(text), static_cast<int>(line));
}

Lexer::Lexer(std::string_view source) {
  text_.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text_ += source[i];
    } else {
      text_ += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text_.ends_with('\n')) text_.pop_back();
}

void Lexer::move_to(size_t end) {
  line_ += static_cast<uint32_t>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                            text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
  if (end > at_) is_line_start_ = text_[end - 1] == '\n';
  at_ = end;
}

size_t Lexer::after_spaces(size_t at) const {
  return text_.size() - strip_left(std::string_view(text_).substr(at)).size();
}

Token Lexer::next() {
  Token token;
  for (;;) {
    token = Token();
    token.line = line_;
    if (at_ >= text_.size()) return token;
    if (state_ == State::root) {
      if (lex_root(token)) return token;
    } else {
      const size_t blank = after_spaces(at_);
      if (blank > at_ && !starts(at_, "%}") && !starts(at_, "}}")) {
        move_to(blank);
        continue;
      }
      lex_tag(token);
      return token;
    }
  }
}

std::string_view Lexer::strip(std::string_view text, char sign, bool is_variable) {
  if (sign == '-') return strip_right(text);
  if (sign == '+' || is_variable) return text;
  const size_t newline = text.rfind('\n');
  const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
  if (line == 0 && !is_line_start_) return text;
  const std::string_view rest = text.substr(line);
  return !rest.empty() && strip_left(rest).empty() ? text.substr(0, line) : text;
}

size_t Lexer::match_raw_begin(size_t at) const {
  size_t word = at + 2;
  if (word < text_.size() && (text_[word] == '-' || text_[word] == '+')) ++word;
  word = after_spaces(word);
  if (!starts(word, "raw")) return 0;
  const size_t end = after_spaces(word + 3);
  if (starts(end, "-%}")) return after_spaces(end + 3);
  return starts(end, "%}") ? end + 2 : 0;
}

// Returns the text before the next tag, then the tag's begin.
bool Lexer::lex_root(Token& token) {
  size_t begin = at_;
  while (begin < text_.size() &&
         !(text_[begin] == '{' && begin + 1 < text_.size() &&
           (text_[begin + 1] == '%' || text_[begin + 1] == '{' || text_[begin + 1] == '#'))) {
    ++begin;
  }
  const std::string_view text(text_);
  if (begin >= text_.size()) {
    token.kind = TokenKind::data;
    token.text = text.substr(at_);
    move_to(begin);
    return true;
  }
  const char opener = text_[begin + 1];
  const char sign = begin + 2 < text_.size() && (text_[begin + 2] == '-' || text_[begin + 2] == '+')
                        ? text_[begin + 2]
                        : '\0';
  const std::string_view before = strip(text.substr(at_, begin - at_), sign, opener == '{');
  if (begin > at_) {
    const bool was_line_start = is_line_start_;
    move_to(begin);
    // The next call finds the tag with no text before it and nothing to strip.
    is_line_start_ = was_line_start;
    if (!before.empty()) {
      token.kind = TokenKind::data;
      token.text = before;
      return true;
    }
  }
  token.line = line_;
  const size_t raw = opener == '%' ? match_raw_begin(begin) : 0;
  if (raw != 0) {
    lex_raw(token, raw);
    return !token.text.empty();
  }
  move_to(begin + (sign != '\0' ? 3 : 2));
  is_line_start_ = false;
  if (opener == '#') {
    lex_comment();
    return false;
  }
  token.kind = opener == '%' ? TokenKind::block_begin : TokenKind::variable_begin;
  state_ = opener == '%' ? State::block : State::variable;
  return true;
}

void Lexer::lex_comment() {
  const size_t close = text_.find("#}", at_);
  if (close == std::string::npos) raise_syntax("Missing end of comment tag", line_);
  const char sign = close > at_ ? text_[close - 1] : '\0';
  if (sign == '-') {
    move_to(after_spaces(close + 2));
  } else {
    move_to(sign == '+' ? close + 2 : after_newline(close + 2));
  }
}

void Lexer::lex_raw(Token& token, size_t after_begin) {
  move_to(after_begin);
  token.line = line_;
  for (size_t close = text_.find("{%", at_); close != std::string::npos;
       close = text_.find("{%", close + 1)) {
    size_t word = close + 2;
    char sign = '\0';
    if (word < text_.size() && (text_[word] == '-' || text_[word] == '+')) sign = text_[word++];
    word = after_spaces(word);
    if (!starts(word, "endraw")) continue;
    const size_t end = after_spaces(word + 6);
    size_t after = 0;
    if (starts(end, "+%}")) after = end + 3;
    if (starts(end, "-%}")) after = after_spaces(end + 3);
    if (starts(end, "%}")) after = after_newline(end + 2);
    if (after == 0) continue;
    token.kind = TokenKind::data;
    token.text = strip(std::string_view(text_).substr(at_, close - at_), sign, false);
    move_to(after);
    return;
  }
  raise_syntax("Missing end of raw directive", line_);
}

bool Lexer::lex_tag_end(Token& token) {
  if (!brackets_.empty()) return false;
  const std::string_view close = state_ == State::block ? "%}" : "}}";
  const char sign = text_[at_];
  const bool is_signed = sign == '-' || (sign == '+' && state_ == State::block);
  if (is_signed && starts(at_ + 1, close)) {
    move_to(sign == '-' ? after_spaces(at_ + 3) : at_ + 3);
  } else if (starts(at_, close)) {
    move_to(state_ == State::block ? after_newline(at_ + 2) : at_ + 2);
  } else {
    return false;
  }
  token.kind = state_ == State::block ? TokenKind::block_end : TokenKind::variable_end;
  state_ = State::root;
  return true;
}

void Lexer::lex_tag(Token& token) {
  if (lex_tag_end(token) || lex_number(token) || lex_name(token) || lex_string(token) ||
      lex_symbol(token)) {
    return;
  }
  size_t end = at_;
  next_character(text_, end);
  raise_syntax(
      fmt::format("unexpected char {} at {}", repr(Value::string(text_.substr(at_, end - at_))),
                  count_characters(std::string_view(text_).substr(0, at_))),
      line_);
}

bool Lexer::lex_number(Token& token) {
  const std::string_view text(text_);
  size_t end = at_ > 0 && text_[at_ - 1] == '.' ? at_ : after_float(text, at_);
  token.is_integer = end == at_;
  if (token.is_integer) end = after_integer(text, at_);
  if (end == at_) return false;
  const std::string_view digits = text.substr(at_, end - at_);
  token.kind = TokenKind::number;
  token.value = token.is_integer ? Value::integer(*parse_integer(digits, 0))
                                 : Value::real(parse_float(digits).value_or(0));
  move_to(end);
  return true;
}

bool Lexer::lex_name(Token& token) {
  size_t end = at_;
  bool is_identifier = true;
  while (end < text_.size()) {
    size_t next = end;
    const char32_t c = next_character(text_, next);
    if (!is_word(c) && !is_identifier_part(c)) break;
    const bool fits = c == '_' || (end == at_ ? is_identifier_start(c) : is_identifier_part(c));
    is_identifier = is_identifier && fits;
    end = next;
  }
  if (end == at_) return false;
  if (!is_identifier) raise_syntax("Invalid character in identifier", line_);
  token.kind = TokenKind::name;
  token.text = text_.substr(at_, end - at_);
  move_to(end);
  return true;
}

bool Lexer::lex_string(Token& token) {
  const char quote = text_[at_];
  if (quote != '\'' && quote != '"') return false;
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size()) return false;
  token.kind = TokenKind::string;
  token.text = unescape_literal(std::string_view(text_).substr(at_ + 1, end - at_ - 1), line_);
  move_to(end + 1);
  return true;
}

bool Lexer::lex_symbol(Token& token) {
  for (const std::string_view symbol : kSymbols) {
    if (!starts(at_, symbol)) continue;
    const char c = symbol[0];
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) raise_syntax(fmt::format("unexpected '{}'", c), line_);
      const char expected = brackets_.back();
      brackets_.pop_back();
      if (expected != c) {
        raise_syntax(fmt::format("unexpected '{}', expected '{}'", c, expected), line_);
      }
    }
    token.kind = TokenKind::symbol;
    token.text = symbol;
    move_to(at_ + symbol.size());
    return true;
  }
  return false;
}

}  // namespace lathe::templates

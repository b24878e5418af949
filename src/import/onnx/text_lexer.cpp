// SPDX-License-Identifier: MIT
#include "import/onnx/text_lexer.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace lathe::onnx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_special_number(std::string_view word) {
  constexpr std::string_view kNames[] = {"inf", "infinity", "nan"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    return std::equal(word.begin(), word.end(), name.begin(), name.end(),
                      [](char a, char b) { return (a | 0x20) == b; });
  });
}

}  // namespace

TextLexer::TextLexer(std::string_view source, std::string_view origin,
                     std::deque<std::string>& unescaped)
    : source_(source), origin_(origin), unescaped_(unescaped) {
  advance();
}

TextLexer::Token TextLexer::next() {
  const Token token = token_;
  advance();
  return token;
}

void TextLexer::skip_blank() {
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (c == '#') {
      at_ = std::min(source_.find('\n', at_), source_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      ++at_;
    } else {
      return;
    }
  }
}

void TextLexer::advance() {
  skip_blank();
  token_ = {Kind::end, {}, at_};
  if (at_ == source_.size()) return;
  const char c = source_[at_];
  const char after = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
  if (c == '"') {
    lex_text();
  } else if (is_digit(c) || (c == '-' && (is_digit(after) || starts_word(after)))) {
    lex_numeric();
  } else if (starts_word(c)) {
    while (at_ < source_.size() && (starts_word(source_[at_]) || is_digit(source_[at_]))) ++at_;
    token_.kind = Kind::word;
    token_.text = source_.substr(token_.begin, at_ - token_.begin);
  } else {
    ++at_;
    token_.kind = Kind::symbol;
    token_.text = source_.substr(token_.begin, 1);
  }
}

void TextLexer::lex_text() {
  std::string plain;
  bool has_escape = false;
  for (++at_; at_ < source_.size() && source_[at_] != '"'; ++at_) {
    if (source_[at_] == '\\') {
      has_escape = true;
      ++at_;
    }
    if (at_ < source_.size()) plain += source_[at_];
  }
  if (at_ >= source_.size()) fail_at(token_, "this string has no closing '\"'");
  token_.kind = Kind::text;
  token_.text = has_escape ? unescaped_.emplace_back(std::move(plain))
                           : source_.substr(token_.begin + 1, at_ - token_.begin - 1);
  ++at_;
}

void TextLexer::lex_numeric() {
  if (source_[at_] == '-') ++at_;
  if (starts_word(source_[at_])) {  // -inf
    const size_t word = at_;
    while (at_ < source_.size() && starts_word(source_[at_])) ++at_;
    token_.kind = is_special_number(source_.substr(word, at_ - word)) ? Kind::number : Kind::symbol;
  } else {
    const auto digits = [&] {
      while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
    };
    digits();
    const size_t whole = at_;
    if (at_ < source_.size() && source_[at_] == '.') {
      ++at_;
      digits();
    }
    if (at_ < source_.size() && (source_[at_] | 0x20) == 'e') {
      ++at_;
      if (at_ < source_.size() && (source_[at_] == '+' || source_[at_] == '-')) ++at_;
      digits();
    }
    token_.kind = at_ == whole ? Kind::integer : Kind::number;
  }
  token_.text = source_.substr(token_.begin, at_ - token_.begin);
}

bool TextLexer::take_symbol(char symbol) {
  if (!at_symbol(symbol)) return false;
  advance();
  return true;
}

void TextLexer::expect_symbol(char symbol) {
  if (!take_symbol(symbol)) fail_expected(fmt::format("'{}'", symbol));
}

void TextLexer::expect_arrow() {
  if (!at_symbol('=') || source_.substr(at_, 1) != ">") fail_expected("'=>'");
  advance();
  advance();
}

std::string_view TextLexer::expect_word(std::string_view what) {
  if (token_.kind != Kind::word) fail_expected(what);
  return next().text;
}

std::string_view TextLexer::expect_name(std::string_view what) {
  if (token_.kind != Kind::word && token_.kind != Kind::text) fail_expected(what);
  return next().text;
}

std::string_view TextLexer::expect_text(std::string_view what) {
  if (token_.kind != Kind::text) fail_expected(what);
  return next().text;
}

int64_t TextLexer::expect_integer(std::string_view what) {
  int64_t value = 0;
  const std::string_view text = token_.text;
  if (token_.kind != Kind::integer) fail_expected(what);
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    fail_at(token_, "this number does not fit 64 bits");
  }
  advance();
  return value;
}

uint64_t TextLexer::expect_unsigned(std::string_view what) {
  uint64_t value = 0;
  const std::string_view text = token_.text;
  if (token_.kind != Kind::integer) fail_expected(what);
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    fail_at(token_, "this number does not fit 64 bits without sign");
  }
  advance();
  return value;
}

template <class T>
T TextLexer::expect_real(std::string_view what) {
  const bool is_special = token_.kind == Kind::word && is_special_number(token_.text);
  if (token_.kind != Kind::integer && token_.kind != Kind::number && !is_special) {
    fail_expected(what);
  }
  T value = 0;
  const char* end = token_.text.data() + token_.text.size();
  const auto result = std::from_chars(token_.text.data(), end, value);
  if (result.ec == std::errc::result_out_of_range || result.ptr != end) {
    fail_at(token_, "this number cannot be represented");
  }
  advance();
  return value;
}

float TextLexer::expect_float(std::string_view what) { return expect_real<float>(what); }
double TextLexer::expect_double(std::string_view what) { return expect_real<double>(what); }

void TextLexer::fail_expected(std::string_view what) const {
  const std::string found = token_.kind == Kind::end ? "the end of the text"
                                                     : fmt::format("'{}'", escape(token_.text, 60));
  fail_at(token_, fmt::format("expected {}, found {}", what, found));
}

void TextLexer::fail_at(const Token& token, std::string message) const {
  const std::string_view before = source_.substr(0, token.begin);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  constexpr size_t kShown = 100;
  const size_t from = token.begin - start > kShown ? token.begin - kShown : start;
  const size_t end = std::min({source_.find('\n', token.begin), source_.size(), from + 2 * kShown});
  Error error(ErrorKind::invalid_model,
              fmt::format("{}:{}:{}: {}", escape(origin_), line, token.begin - start + 1, message));
  const size_t indent = escape(source_.substr(from, token.begin - from), 1000).size();
  error.note(escape(source_.substr(from, end - from), 1000));
  error.note(std::string(indent, ' ') + "^");
  throw error;
}

}  // namespace lathe::onnx

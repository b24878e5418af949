// SPDX-License-Identifier: MIT
#include "ir/lexer.h"

#include <algorithm>

#include "base/quote.h"

namespace lathe {
namespace {

constexpr size_t kMaxExpressionBytes = 4096;
constexpr size_t kShownBefore = 70;  // bytes of a long line shown before and after an error
constexpr size_t kShownAfter = 30;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_word_start(c) || is_digit(c) || c == '.'; }

// Width on a terminal in columns: one per code point.
size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_char);
}

bool is_word(std::string_view name) { return is_plain_name(name) && is_word_start(name.front()); }

std::string name_text(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quote(name);
}

Token Lexer::take() {
  const Token taken = token_;
  advance();
  return taken;
}

bool Lexer::accept(std::string_view written) {
  if (!token_.is(written)) return false;
  advance();
  return true;
}

void Lexer::seek(size_t offset) {
  next_ = offset;
  advance();
}

Token Lexer::expect(TokenKind kind, std::string_view what) {
  if (token_.kind != kind) {
    fail_at(token_.offset, fmt::format("expected {}, found {}", what,
                                       token_.kind == TokenKind::end
                                           ? "the end of the file"
                                           : fmt::format("'{}'", escape(token_.text, 60))));
  }
  return take();
}

void Lexer::expect(std::string_view written, std::string_view where) {
  if (!token_.is(written)) {
    fail_at(token_.offset, fmt::format("expected '{}' {}, found {}", written, where,
                                       token_.kind == TokenKind::end
                                           ? "the end of the file"
                                           : fmt::format("'{}'", escape(token_.text, 60))));
  }
  advance();
}

std::string_view Lexer::take_expression() {
  const size_t begin = token_.offset;
  size_t at = begin;
  int depth = 0;
  for (; at < text_.size(); ++at) {
    const char c = text_[at];
    if (c == '"') {
      at = string_end(at) - 1;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && depth > 0) {
      --depth;
    } else if (c == '\n' ||
               (depth == 0 && std::string_view(",)]:=<").find(c) != std::string_view::npos)) {
      break;
    }
  }
  if (at - begin > kMaxExpressionBytes) {
    fail_at(begin, fmt::format("a dim of {} bytes, at most {} are allowed", at - begin,
                               kMaxExpressionBytes));
  }
  std::string_view expression = text_.substr(begin, at - begin);
  while (!expression.empty() && expression.back() == ' ') expression.remove_suffix(1);
  if (expression.empty()) fail_at(begin, fmt::format("expected a dim, found '{}'", token_.text));
  seek(at);
  return expression;
}

std::string Lexer::name_of(const Token& token) const {
  std::string_view name = token.text;
  if (token.kind == TokenKind::value || token.kind == TokenKind::module) name.remove_prefix(1);
  if (name.empty() || name.front() != '"') return std::string(name);
  std::optional<std::string> text = unquote(name.substr(1, name.size() - 2));
  if (!text) {
    fail_at(token.offset,
            fmt::format("malformed escape in {}; valid are \\\" \\\\ \\n \\t \\r \\xNN",
                        escape(name, 60)));
  }
  return std::move(*text);
}

void Lexer::skip_space() {
  while (next_ < text_.size()) {
    const char c = text_[next_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++next_;
    } else if (text_.substr(next_, 2) == "//") {
      next_ = std::min(text_.find('\n', next_), text_.size());
    } else {
      return;
    }
  }
}

// Offset behind the closing quote of the string that begins at `begin`.
size_t Lexer::string_end(size_t begin) const {
  for (size_t at = begin + 1; at < text_.size() && text_[at] != '\n'; ++at) {
    if (text_[at] == '"') return at + 1;
    if (text_[at] == '\\') ++at;
  }
  fail_at(begin, fmt::format("a string is not closed on its line: {}",
                             escape(text_.substr(begin, 30), 40)));
}

void Lexer::advance() {
  skip_space();
  const size_t begin = next_;
  if (begin == text_.size()) {
    token_ = {TokenKind::end, text_.substr(begin, 0), begin};
    return;
  }
  const char c = text_[begin];
  const char following = begin + 1 < text_.size() ? text_[begin + 1] : '\0';
  TokenKind kind = TokenKind::punctuation;
  size_t end = begin + 1;
  const auto skip_name = [&] {
    while (end < text_.size() && is_name_char(text_[end])) ++end;
  };
  if (c == '"') {
    kind = TokenKind::string;
    end = string_end(begin);
  } else if (c == '%' || c == '@') {
    kind = c == '%' ? TokenKind::value : TokenKind::module;
    following == '"' ? void(end = string_end(begin + 1)) : skip_name();
    if (end == begin + 1) {
      fail_at(begin, fmt::format("expected a name after '{}', found '{}'", c,
                                 escape(text_.substr(begin + 1, 1))));
    }
  } else if (c == '#') {
    kind = TokenKind::hash;
    skip_name();
  } else if (is_word_start(c)) {
    kind = TokenKind::word;
    skip_name();
  } else if (is_digit(c) ||
             ((c == '-' || c == '.') && (is_digit(following) || is_word_start(following)))) {
    kind = TokenKind::number;
    // "1..8" is a range, "1e-5" is one number.
    while (end < text_.size() && text_.substr(end, 2) != ".." &&
           (is_name_char(text_[end]) || ((text_[end] == '-' || text_[end] == '+') &&
                                         (text_[end - 1] == 'e' || text_[end - 1] == 'E')))) {
      ++end;
    }
  } else if ((c == '.' && following == '.') || (c == '=' && following == '=') ||
             (c == '<' && following == '=')) {
    end = begin + 2;
  } else if (std::string_view("{}()[]<>,:=*+-").find(c) == std::string_view::npos) {
    fail_at(begin, fmt::format("unexpected character '{}'", escape(text_.substr(begin, 1))));
  }
  token_ = {kind, text_.substr(begin, end - begin), begin};
  next_ = end;
}

Error Lexer::error_at(size_t offset, ErrorKind kind, std::string_view message) const {
  offset = std::min(offset, text_.size());
  const std::string_view before = text_.substr(0, offset);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_end = std::min(text_.find('\n', offset), text_.size());
  const size_t shown_begin =
      offset - line_begin > kShownBefore ? offset - kShownBefore : line_begin;
  const size_t shown_end = std::min(line_end, offset + kShownAfter);
  const std::string left = (shown_begin > line_begin ? "…" : "") +
                           escape(text_.substr(shown_begin, offset - shown_begin), 1000);
  const std::string right =
      escape(text_.substr(offset, shown_end - offset), 1000) + (shown_end < line_end ? "…" : "");
  Error error(kind,
              fmt::format("{}:{}:{}: {}", escape(file_), line,
                          columns(text_.substr(line_begin, offset - line_begin)) + 1, message));
  error.note(left + right);
  error.note(std::string(columns(left), ' ') + '^');
  return error;
}

void Lexer::fail_at(size_t offset, std::string_view message) const {
  throw error_at(offset, ErrorKind::invalid_model, message);
}

}  // namespace lathe

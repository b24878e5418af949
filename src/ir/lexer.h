// SPDX-License-Identifier: MIT
// Lexer of the text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace lathe {

enum class TokenKind : uint8_t {
  end,
  word,         // f32, matmul, inf
  number,       // 12, -1.5e-3, -inf, 0x1f
  string,       // "…"
  value,        // %name or %"…"
  module,       // @name or @"…"
  hash,         // #0123456789abcdef
  punctuation,  // one character, or one of .. == <=
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // as written
  size_t offset = 0;

  bool is(std::string_view written) const {
    return (kind == TokenKind::punctuation || kind == TokenKind::word) && text == written;
  }
};

// True if the name of a value, module or symbol needs no quotes.
bool is_plain_name(std::string_view name);
// True for a plain name that starts with a letter or '_': it lexes as one word token.
bool is_word(std::string_view name);
// "name" or "\"a/b\"", after a sigil.
std::string name_text(std::string_view name);

// Splits source text into tokens, with one token of lookahead. Spaces, line ends and // comments
// separate tokens.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { advance(); }

  const Token& peek() const { return token_; }
  Token take();
  // Consumes the next token if it is this word or punctuation.
  bool accept(std::string_view written);
  // Offset of the next token; seek() returns to an offset.
  size_t position() const { return token_.offset; }
  void seek(size_t offset);
  // Bytes from the next token to the end; they bound the number of elements that can follow.
  size_t remaining() const { return text_.size() - token_.offset; }
  std::string_view text() const { return text_; }

  Token expect(TokenKind kind, std::string_view what);
  void expect(std::string_view written, std::string_view where);
  // The source of a dim expression, up to a , ] ) : = < of the same nesting, which becomes the next
  // token.
  std::string_view take_expression();

  // Unescaped string of a token, without sigil and quotes.
  std::string name_of(const Token& token) const;

  // InvalidModel "file:line:column: message", with the line and a caret as notes.
  [[noreturn]] void fail_at(size_t offset, std::string_view message) const;
  Error error_at(size_t offset, ErrorKind kind, std::string_view message) const;

 private:
  void advance();
  void skip_space();
  size_t string_end(size_t begin) const;

  std::string_view text_;
  std::string_view file_;
  size_t next_ = 0;
  Token token_;
};

}  // namespace lathe

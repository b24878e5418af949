// SPDX-License-Identifier: MIT
// Tokens of ONNX's textual syntax with their positions.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace lathe::onnx {

class TextLexer {
 public:
  enum class Kind : uint8_t { end, word, text, integer, number, symbol };
  struct Token {
    Kind kind = Kind::end;
    std::string_view text;  // of a string: unescaped, without quotes
    size_t begin = 0;       // offset in the source
  };

  // `unescaped` owns the strings that had escapes.
  TextLexer(std::string_view source, std::string_view origin, std::deque<std::string>& unescaped);

  const Token& peek() const { return token_; }
  Token next();
  bool at_symbol(char symbol) const {
    return token_.kind == Kind::symbol && token_.text[0] == symbol;
  }
  bool at_word(std::string_view word) const {
    return token_.kind == Kind::word && token_.text == word;
  }
  bool take_symbol(char symbol);  // false without that symbol
  void expect_symbol(char symbol);
  void expect_arrow();  // =>
  std::string_view expect_word(std::string_view what);
  std::string_view expect_name(std::string_view what);  // a word or a string
  std::string_view expect_text(std::string_view what);
  int64_t expect_integer(std::string_view what);
  uint64_t expect_unsigned(std::string_view what);
  float expect_float(std::string_view what);  // or an integer
  double expect_double(std::string_view what);

  // InvalidModel "file:line:column: expected {} found …" with the line and a caret.
  [[noreturn]] void fail_expected(std::string_view what) const;
  [[noreturn]] void fail_at(const Token& token, std::string message) const;

 private:
  void advance();
  void skip_blank();
  void lex_text();
  void lex_numeric();
  template <class T>
  T expect_real(std::string_view what);

  std::string_view source_;
  std::string origin_;
  std::deque<std::string>& unescaped_;
  size_t at_ = 0;
  Token token_;
};

}  // namespace lathe::onnx

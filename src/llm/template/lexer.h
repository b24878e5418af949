// SPDX-License-Identifier: MIT
// Produces the tokens of a template on request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llm/template/value.h"

namespace lathe::templates {

enum class TokenKind : uint8_t {
  end,
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  number,  // integer or float
  symbol,  // operator, in `text`
};

struct Token {
  TokenKind kind = TokenKind::end;
  uint32_t line = 1;
  std::string text;  // data, name, string, symbol
  Value value;       // number
  bool is_integer = false;

  bool is_symbol(std::string_view symbol) const {
    return kind == TokenKind::symbol && text == symbol;
  }
  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
  std::string described() const;  // for error messages
};

[[noreturn]] void raise_syntax(std::string text, uint32_t line,
                               Exception exception = Exception::template_syntax);

// Has transformers' settings: trim_blocks, lstrip_blocks, one trailing newline removed.
class Lexer {
 public:
  explicit Lexer(std::string_view source);
  Token next();

 private:
  enum class State : uint8_t { root, block, variable };

  bool lex_root(Token& token);
  void lex_comment();
  void lex_raw(Token& token, size_t after_begin);
  void lex_tag(Token& token);
  bool lex_tag_end(Token& token);
  bool lex_number(Token& token);
  bool lex_name(Token& token);
  bool lex_string(Token& token);
  bool lex_symbol(Token& token);
  // The text before a tag, without the white space that the tag removes.
  std::string_view strip(std::string_view text, char sign, bool is_variable);
  size_t match_raw_begin(size_t at) const;
  size_t after_spaces(size_t at) const;
  size_t after_newline(size_t at) const {
    return at < text_.size() && text_[at] == '\n' ? at + 1 : at;
  }
  bool starts(size_t at, std::string_view what) const {
    return std::string_view(text_).substr(at).starts_with(what);
  }
  void move_to(size_t end);  // counts lines

  std::string text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  State state_ = State::root;
  bool is_line_start_ = true;
  std::string brackets_;  // closing brackets of the open ones
};

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
#include "llm/template/string_literal.h"

#include "llm/template/lexer.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// \xhh, \uhhhh or \Uhhhhhhhh; `at` is behind the letter.
void append_hex(std::string& out, std::string_view text, size_t& at, uint32_t line) {
  const char letter = text[at - 1];
  const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
  uint32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (at >= text.size() || std::isxdigit(static_cast<unsigned char>(text[at])) == 0) {
      raise_syntax(fmt::format("truncated \\{}{} escape", letter, std::string(digits, 'X')), line);
    }
    const char c = text[at++];
    code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (code > 0x10ffff) raise_syntax("illegal Unicode character", line);
  append_character(out, code);
}

// Jinja encodes non-ASCII characters as escapes first, so a backslash before one escapes the
// escape's backslash.
void append_escaped_character(std::string& out, std::string_view text, size_t& at) {
  const auto code = static_cast<uint32_t>(next_character(text, at));
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\U{:08x}", code);
  }
}

void append_escape(std::string& out, std::string_view text, size_t& at, uint32_t line) {
  constexpr std::string_view kLetters = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = text[at];
  if (static_cast<unsigned char>(c) >= 0x80) {
    append_escaped_character(out, text, at);
    return;
  }
  ++at;
  if (const size_t place = kLetters.find(c); place != std::string_view::npos) {
    out += kMeanings[place];
  } else if (c == 'x' || c == 'u' || c == 'U') {
    append_hex(out, text, at, line);
  } else if (c == 'N') {
    raise_syntax("named characters, \\N{...}, are not supported", line, Exception::unsupported);
  } else if (is_octal(c)) {
    uint32_t code = static_cast<uint32_t>(c - '0');
    for (int i = 0; i < 2 && at < text.size() && is_octal(text[at]); ++i) {
      code = code * 8 + static_cast<uint32_t>(text[at++] - '0');
    }
    append_character(out, code);
  } else if (c != '\n') {
    out += '\\';
    out += c;
  }
}

}  // namespace

std::string unescape_literal(std::string_view text, uint32_t line) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    ++at;
    append_escape(out, text, at, line);
  }
  return out;
}

}  // namespace lathe::templates

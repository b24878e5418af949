// SPDX-License-Identifier: MIT
#include "llm/template/string_tools.h"

#include <algorithm>

#include "llm/template/budget.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

void append_fill(std::string& out, char32_t fill, int64_t count) {
  for (int64_t i = 0; i < count; ++i) append_character(out, fill);
}

}  // namespace

std::string pad(const String& text, int64_t width, char32_t fill, Padding padding) {
  const auto length = static_cast<int64_t>(text.length);
  if (width <= length) return text.text;
  const int64_t space = width - length;
  foresee(static_cast<uint64_t>(space) * 4);
  step_text(static_cast<size_t>(space));
  int64_t before = padding == Padding::right ? space : 0;
  // Python puts the odd blank in front if the width is odd.
  if (padding == Padding::center) before = space / 2 + (space & width & 1);
  std::string out;
  append_fill(out, fill, before);
  out += text.text;
  append_fill(out, fill, space - before);
  return out;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count) {
  step_text(text.size());
  uint64_t left = count < 0 ? ~uint64_t{0} : static_cast<uint64_t>(count);
  std::string out;
  size_t at = 0;
  while (left-- > 0) {
    if (out.size() > 4096) foresee(out.size() + to.size());
    if (from.empty()) {
      // An empty `from` matches before every character and at the end.
      step_text(to.size());
      out += to;
      if (at >= text.size()) return out;
      const size_t begin = at;
      next_character(text, at);
      out += text.substr(begin, at - begin);
      continue;
    }
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    step_text(to.size());
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  out += text.substr(std::min(at, text.size()));
  return out;
}

std::string_view strip(std::string_view text, const Value& characters, bool at_left,
                       bool at_right) {
  step_text(text.size());
  if (!characters.is_string()) {
    if (at_left) text = strip_left(text);
    return at_right ? strip_right(text) : text;
  }
  const std::u32string set = to_characters(characters.text());
  const auto is_in = [&](char32_t c) {
    step(set.size() / 16);
    return set.find(c) != std::u32string::npos;
  };
  while (at_left && !text.empty()) {
    size_t next = 0;
    if (!is_in(next_character(text, next))) break;
    text.remove_prefix(next);
  }
  while (at_right && !text.empty()) {
    const size_t begin = previous_character(text, text.size());
    size_t next = begin;
    if (!is_in(next_character(text, next))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string_view> lines;
  step_text(text.size());
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_character(text, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keeps_ends ? at : end) - begin));
    begin = at;
    foresee(lines.size() * sizeof(std::string_view) * 2);
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace lathe::templates

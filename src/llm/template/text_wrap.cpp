// SPDX-License-Identifier: MIT
#include "llm/template/text_wrap.h"

#include <algorithm>

#include "llm/template/budget.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

using Characters = std::u32string;

bool is_blank(char32_t c) { return (c >= 9 && c <= 13) || c == ' '; }
bool is_letter(char32_t c) { return is_word(c) && !is_decimal(c); }
bool is_word_mark(char32_t c) {
  return is_word(c) || (c < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(c)) !=
                                        std::string_view::npos);
}

// Finds the chunks between which a line may break.
class Splitter {
 public:
  explicit Splitter(const Characters& text) : text_(text) {}

  std::vector<Characters> split(bool at_hyphens) {
    std::vector<Characters> chunks;
    for (size_t at = 0; at < text_.size();) {
      const size_t end = at_hyphens ? end_with_hyphens(at) : end_of_run(at);
      chunks.push_back(text_.substr(at, end - at));
      at = end;
    }
    return chunks;
  }

 private:
  char32_t get(size_t at) const { return at < text_.size() ? text_[at] : 0; }

  size_t end_of_run(size_t at) const {
    const bool blank = is_blank(text_[at]);
    while (at < text_.size() && is_blank(text_[at]) == blank) ++at;
    return at;
  }

  // Two or more hyphens with a word before and behind them.
  size_t end_of_dash(size_t at) const {
    if (at == 0 || !is_word_mark(text_[at - 1])) return 0;
    size_t end = at;
    while (get(end) == '-') ++end;
    return end - at >= 2 && is_word(get(end)) ? end : 0;
  }

  bool has_hyphen_break(size_t at) const {
    if (get(at) != '-' || at < 2) return false;
    const bool is_after_letters = is_letter(text_[at - 1]) && is_letter(text_[at - 2]);
    const bool is_after_short =
        is_word_mark(text_[at - 1]) && text_[at - 2] == '-' && at >= 3 && is_letter(text_[at - 3]);
    if (!is_after_letters && !is_after_short) return false;
    if (!is_letter(get(at + 1))) return false;
    return is_letter(get(at + 2)) || (get(at + 2) == '-' && is_letter(get(at + 3)));
  }

  size_t end_with_hyphens(size_t at) const {
    if (is_blank(text_[at])) return end_of_run(at);
    if (const size_t dash = end_of_dash(at)) return dash;
    for (size_t end = at + 1;; ++end) {
      if (has_hyphen_break(end)) return end + 1;
      if (end >= text_.size() || is_blank(text_[end])) return end;
      if (is_word_mark(text_[end - 1]) && end_of_dash(end) != 0) return end;
    }
  }

  const Characters& text_;
};

bool is_all_blank(const Characters& text) {
  return std::all_of(text.begin(), text.end(), [](char32_t c) { return is_space(c); });
}

// Takes what fits of a word that no line could hold.
void break_word(Characters& word, Characters& line, size_t width, const WrapStyle& style) {
  const size_t left = width - line.size();
  size_t end = left;
  if (style.breaks_on_hyphens && word.size() > left) {
    const size_t hyphen = left == 0 ? Characters::npos : word.rfind('-', left - 1);
    if (hyphen != Characters::npos && hyphen > 0 && word.find_first_not_of(U'-') < hyphen) {
      end = hyphen + 1;
    }
  }
  line += word.substr(0, end);
  word.erase(0, end);
}

}  // namespace

std::vector<std::string> wrap(std::string_view text, const WrapStyle& style) {
  if (style.width <= 0) {
    raise(Exception::value, "invalid width {} (must be > 0)", style.width);
  }
  foresee(text.size() * 24);
  step_text(text.size() * 16);
  const Characters characters = to_characters(text);
  std::vector<Characters> chunks = Splitter(characters).split(style.breaks_on_hyphens);
  std::reverse(chunks.begin(), chunks.end());
  const auto width = static_cast<size_t>(style.width);
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    Characters line;
    size_t last = 0;  // where the last chunk of the line begins
    if (!lines.empty() && is_all_blank(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && line.size() + chunks.back().size() <= width) {
      last = line.size();
      line += chunks.back();
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > width) {
      if (style.breaks_long_words) {
        step_text(chunks.back().size());
        last = line.size();
        break_word(chunks.back(), line, width, style);
      } else if (line.empty()) {
        last = 0;
        line = std::move(chunks.back());
        chunks.pop_back();
      }
    }
    if (!line.empty() && is_all_blank(line.substr(last))) line.resize(last);
    if (!line.empty()) lines.push_back(from_characters(line));
  }
  return lines;
}

}  // namespace lathe::templates

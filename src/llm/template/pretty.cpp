// SPDX-License-Identifier: MIT
// pprint: what does not fit into 80 columns goes into one line per item.
#include <algorithm>

#include "llm/template/budget.h"
#include "llm/template/operators.h"
#include "llm/template/sorting.h"
#include "llm/template/string_tools.h"
#include "llm/template/text.h"
#include "llm/template/text_wrap.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

constexpr int64_t kWidth = 80;

int64_t width_of(const std::string& text) { return static_cast<int64_t>(count_characters(text)); }

// What has no order is ordered by its type.
bool is_before(const Value& a, const Value& b) {
  try {
    return less(a, b);
  } catch (const TemplateError& error) {
    if (error.exception() != Exception::type) throw;
    return type_name(a) < type_name(b);
  }
}

std::vector<std::pair<Value, Value>> sorted_entries(const Dict& dict) {
  std::vector<std::pair<Value, Value>> entries = dict.entries;
  merge_sort(entries, [](const auto& a, const auto& b) {
    if (!equal(a.first, b.first)) return is_before(a.first, b.first);
    return is_before(a.second, b.second);
  });
  return entries;
}

void append_sorted_repr(std::string& out, const Value& value) {
  const Level level;
  step(1);
  if (out.size() > 4096) foresee(out.size());
  if (value.is(Type::dict)) {
    out += '{';
    bool is_first = true;
    for (const auto& [key, item] : sorted_entries(value.dict())) {
      if (!is_first) out += ", ";
      is_first = false;
      append_sorted_repr(out, key);
      out += ": ";
      append_sorted_repr(out, item);
    }
    out += '}';
  } else if (value.is_sequence() && !value.items().empty()) {
    const bool is_list = value.is(Type::list);
    out += is_list ? '[' : '(';
    bool is_first = true;
    for (const Value& item : value.items()) {
      if (!is_first) out += ", ";
      is_first = false;
      append_sorted_repr(out, item);
    }
    out += is_list ? "]" : value.items().size() == 1 ? ",)" : ")";
  } else {
    append_repr(out, value);
  }
}

std::string sorted_repr(const Value& value) {
  std::string out;
  append_sorted_repr(out, value);
  return out;
}

class Printer {
 public:
  std::string out;

  void format(const Value& value, int64_t indent, int64_t allowance, int level) {
    const Level guard;
    const std::string whole = sorted_repr(value);
    foresee(out.size() + whole.size());
    if (width_of(whole) <= kWidth - indent - allowance) {
      out += whole;
      return;
    }
    switch (value.type()) {
      case Type::dict:
        out += '{';
        format_entries(value.dict(), indent + 1, allowance + 1, level + 1);
        out += '}';
        return;
      case Type::list:
        out += '[';
        format_items(value.items(), indent + 1, allowance + 1, level + 1);
        out += ']';
        return;
      case Type::tuple: {
        const std::string_view end = value.items().size() == 1 ? ",)" : ")";
        out += '(';
        format_items(value.items(), indent + 1, allowance + static_cast<int64_t>(end.size()),
                     level + 1);
        out += end;
        return;
      }
      case Type::string:
        if (!value.is_markup()) return format_text(value, indent, allowance, level + 1);
        [[fallthrough]];
      default:
        out += whole;
    }
  }

 private:
  void new_line(int64_t indent) {
    step_text(static_cast<size_t>(indent));
    out += '\n';
    out.append(static_cast<size_t>(indent), ' ');
  }

  void format_entries(const Dict& dict, int64_t indent, int64_t allowance, int level) {
    const auto entries = sorted_entries(dict);
    for (size_t i = 0; i < entries.size(); ++i) {
      const bool is_last = i + 1 == entries.size();
      const std::string key = sorted_repr(entries[i].first);
      out += key + ": ";
      format(entries[i].second, indent + width_of(key) + 2, is_last ? allowance : 1, level);
      if (is_last) break;
      out += ',';
      new_line(indent);
    }
  }

  void format_items(const std::vector<Value>& items, int64_t indent, int64_t allowance, int level) {
    for (size_t i = 0; i < items.size(); ++i) {
      const bool is_last = i + 1 == items.size();
      format(items[i], indent, is_last ? allowance : 1, level);
      if (is_last) break;
      out += ',';
      new_line(indent);
    }
  }

  static std::string quoted(std::string_view text) {
    return repr(Value::string(std::string(text)));
  }

  // Words with the white space behind them.
  static std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    size_t begin = 0;
    bool was_space = false;
    for (size_t at = 0; at < text.size();) {
      const size_t place = at;
      const bool blank = is_space(next_character(text, at));
      if (was_space && !blank) {
        words.push_back(text.substr(begin, place - begin));
        begin = place;
      }
      was_space = blank;
    }
    words.push_back(text.substr(begin));
    return words;
  }

  void format_text(const Value& value, int64_t indent, int64_t allowance, int level) {
    std::vector<std::string> chunks;
    if (level == 1) {
      ++indent;
      ++allowance;
    }
    const int64_t widest = kWidth - indent;
    const std::vector<std::string_view> lines = split_lines(value.text(), true);
    std::string last_line;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool is_last_line = i + 1 == lines.size();
      last_line = quoted(lines[i]);
      if (width_of(last_line) <= widest - (is_last_line ? allowance : 0)) {
        chunks.push_back(last_line);
        continue;
      }
      split_line(lines[i], widest, is_last_line ? allowance : 0, chunks);
    }
    if (chunks.size() == 1) {
      out += last_line;
      return;
    }
    if (level == 1) out += '(';
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(indent);
      out += chunks[i];
    }
    if (level == 1) out += ')';
  }

  static void split_line(std::string_view line, int64_t widest, int64_t allowance,
                         std::vector<std::string>& chunks) {
    std::string current;
    const std::vector<std::string_view> words = words_of(line);
    for (size_t i = 0; i < words.size(); ++i) {
      const int64_t room = widest - (i + 1 == words.size() ? allowance : 0);
      const std::string candidate = current + std::string(words[i]);
      if (width_of(quoted(candidate)) <= room) {
        current = candidate;
        continue;
      }
      if (!current.empty()) chunks.push_back(quoted(current));
      current = words[i];
    }
    if (!current.empty()) chunks.push_back(quoted(current));
  }
};

}  // namespace

std::string pretty(const Value& value) {
  Printer printer;
  printer.format(value, 0, 0, 0);
  return std::move(printer.out);
}

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
// Methods of str that search, split and classify characters.
#include <algorithm>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/string_tools.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

// The bytes of self[start:end] and their offset.
struct Window {
  std::string_view text;
  size_t first_character = 0;
  size_t first_byte = 0;
  bool is_valid = true;  // false if start is after the end
};

Window window_of(const Value& self, const Value& start, const Value& end) {
  const String& string = self.string();
  const auto length = static_cast<int64_t>(string.length);
  const auto place = [&](const Value& value, int64_t otherwise) {
    if (value.is_missing() || value.is_none()) return otherwise;
    if (!value.is_integral()) {
      raise(Exception::type, "slice indices must be integers or {} or have an __index__ method",
            "None");
    }
    const int64_t at = value.whole();
    return at < 0 ? std::max(int64_t{0}, at + length) : at;
  };
  const int64_t first = place(start, 0);
  const int64_t last = std::min(place(end, length), length);
  if (first > last) return {{}, 0, 0, false};
  step_text(string.text.size());
  const auto begin = static_cast<size_t>(first);
  const size_t byte = string.is_ascii() ? begin : byte_of_character(string.text, begin);
  return {substring(string.text, string.length, begin, static_cast<size_t>(last)), begin, byte};
}

template <bool from_right, bool raises>
Value find(const Value& self, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "find", 1, 3);
  const std::string_view what = text_argument(values[0]);
  const Window window = window_of(self, values[1], values[2]);
  size_t at = std::string_view::npos;
  if (window.is_valid) at = from_right ? window.text.rfind(what) : window.text.find(what);
  if (at == std::string_view::npos) {
    if (raises) raise(Exception::value, "{}", "substring not found");
    return Value::integer(-1);
  }
  const size_t characters = window.first_character + count_characters(window.text.substr(0, at));
  return Value::integer(static_cast<int64_t>(characters));
}

Value count(const Value& self, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "count", 1, 3);
  const std::string_view what = text_argument(values[0]);
  const Window window = window_of(self, values[1], values[2]);
  if (!window.is_valid) return Value::integer(0);
  if (what.empty()) {
    return Value::integer(static_cast<int64_t>(count_characters(window.text)) + 1);
  }
  int64_t found = 0;
  for (size_t at = window.text.find(what); at != std::string_view::npos;
       at = window.text.find(what, at + what.size())) {
    ++found;
  }
  return Value::integer(found);
}

template <bool at_end>
Value begins(const Value& self, Arguments& arguments) {
  constexpr std::string_view kName = at_end ? "endswith" : "startswith";
  const std::vector<Value> values = bind_positional(arguments, kName, 1, 3);
  const Window window = window_of(self, values[1], values[2]);
  const auto matches = [&](const Value& what) {
    if (!what.is_string()) {
      raise(Exception::type, "{} first arg must be str or a tuple of str, not {}", kName,
            type_name(what));
    }
    if (!window.is_valid) return false;
    return at_end ? window.text.ends_with(what.text()) : window.text.starts_with(what.text());
  };
  if (!values[0].is(Type::tuple)) return Value::boolean(matches(values[0]));
  for (const Value& what : values[0].items()) {
    if (matches(what)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value list_of(const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    items.push_back(Value::string(std::string(part), self.is_markup()));
  }
  return Value::list(std::move(items));
}

// Splits at white space, without empty parts. The rest after the last split keeps its spaces.
std::vector<std::string_view> split_spaces(std::string_view text, uint64_t limit) {
  std::vector<std::string_view> parts;
  for (;;) {
    text = strip_left(text);
    if (text.empty()) return parts;
    if (limit-- == 0) {
      parts.push_back(text);
      return parts;
    }
    size_t end = 0;
    for (size_t at = 0; at < text.size(); end = at) {
      if (is_space(next_character(text, at))) break;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
    if (parts.size() % 1024 == 0) foresee(parts.size() * 96);
  }
}

std::vector<std::string_view> split_spaces_right(std::string_view text, uint64_t limit) {
  std::vector<std::string_view> parts;
  for (;;) {
    text = strip_right(text);
    if (text.empty()) break;
    if (limit-- == 0) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const size_t before = previous_character(text, begin);
      size_t next = before;
      if (is_space(next_character(text, next))) break;
      begin = before;
    }
    parts.push_back(text.substr(begin));
    text = text.substr(0, begin);
    if (parts.size() % 1024 == 0) foresee(parts.size() * 96);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool from_right>
Value split(const Value& self, Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "split", {"sep", "maxsplit"}, 0);
  const int64_t most = integer_argument(values[1], -1);
  uint64_t limit = most < 0 ? ~uint64_t{0} : static_cast<uint64_t>(most);
  std::string_view text = self.text();
  step_text(text.size());
  if (values[0].is_missing() || values[0].is_none()) {
    return list_of(self, from_right ? split_spaces_right(text, limit) : split_spaces(text, limit));
  }
  if (!values[0].is_string()) {
    raise(Exception::type, "must be str or None, not {}", type_name(values[0]));
  }
  const std::string_view separator = values[0].text();
  if (separator.empty()) raise(Exception::value, "{}", "empty separator");
  std::vector<std::string_view> parts;
  for (; limit > 0; --limit) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
    if (parts.size() % 1024 == 0) foresee(parts.size() * 96);
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return list_of(self, parts);
}

Value splitlines(const Value& self, Arguments& arguments) {
  const Value keeps = bind(arguments, "splitlines", {"keepends"}, 0)[0];
  return list_of(self, split_lines(self.text(), truth_argument(keeps, false)));
}

template <bool from_right>
Value partition(const Value& self, Arguments& arguments) {
  const Value separator = bind_positional(arguments, "partition", 1, 1)[0];
  const std::string_view what = text_argument(separator);
  if (what.empty()) raise(Exception::value, "{}", "empty separator");
  const std::string_view text = self.text();
  const auto part = [&](std::string_view piece) {
    return Value::string(std::string(piece), self.is_markup());
  };
  const size_t at = from_right ? text.rfind(what) : text.find(what);
  if (at == std::string_view::npos) {
    if (from_right) return Value::tuple({part(""), part(""), part(text)});
    return Value::tuple({part(text), part(""), part("")});
  }
  return Value::tuple({part(text.substr(0, at)), part(what), part(text.substr(at + what.size()))});
}

template <bool (*predicate)(char32_t), bool of_empty>
Value all_are(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "str method", 0, 0);
  const std::string_view text = self.text();
  step_text(text.size());
  for (size_t at = 0; at < text.size();) {
    if (!predicate(next_character(text, at))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty() || of_empty);
}

bool is_ascii(char32_t c) { return c < 0x80; }

template <bool (*is_case)(char32_t), bool (*other)(char32_t)>
Value has_case(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "str method", 0, 0);
  const std::string_view text = self.text();
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (other(c) || is_title(c)) return Value::boolean(false);
    found = found || is_case(c);
  }
  return Value::boolean(found);
}

Value istitle(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "istitle", 0, 0);
  const std::string_view text = self.text();
  bool found = false;
  bool was_cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (is_upper(c) || is_title(c)) {
      if (was_cased) return Value::boolean(false);
      found = was_cased = true;
    } else if (is_lower(c)) {
      if (!was_cased) return Value::boolean(false);
      found = was_cased = true;
    } else {
      was_cased = false;
    }
  }
  return Value::boolean(found);
}

Value isidentifier(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "isidentifier", 0, 0);
  const std::string_view text = self.text();
  for (size_t at = 0; at < text.size();) {
    const bool is_first = at == 0;
    const char32_t c = next_character(text, at);
    if (!(is_first ? is_identifier_start(c) : is_identifier_part(c))) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

constexpr Method kSearchMethods[] = {
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"startswith", begins<false>},
    {"endswith", begins<true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"isalpha", all_are<is_alphabetic, false>},
    {"isalnum", all_are<is_alphanumeric, false>},
    {"isdecimal", all_are<is_decimal, false>},
    {"isdigit", all_are<is_digit, false>},
    {"isnumeric", all_are<is_numeric, false>},
    {"isspace", all_are<is_space, false>},
    {"isprintable", all_are<is_printable, true>},
    {"isascii", all_are<is_ascii, true>},
    {"islower", has_case<is_lower, is_upper>},
    {"isupper", has_case<is_upper, is_lower>},
    {"istitle", istitle},
    {"isidentifier", isidentifier},
};

}  // namespace

std::span<const Method> string_search_methods() { return kSearchMethods; }

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
// Filters over one string.
#include <algorithm>

#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/escaping.h"
#include "llm/template/filters.h"
#include "llm/template/percent_format.h"
#include "llm/template/string_tools.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

// The value as a string; Markup stays Markup.
Value soft(const Value& value) { return value.is_string() ? value : Value::string(str(value)); }

template <auto function>
Value mapped(Arguments& arguments, std::string_view name) {
  const Value text = soft(bind(arguments, name, {"s"}, 1)[0]);
  return Value::string(function(text.text()), text.is_markup());
}
Value lower_filter(Arguments& arguments) { return mapped<lower>(arguments, "do_lower"); }
Value upper_filter(Arguments& arguments) { return mapped<upper>(arguments, "do_upper"); }
Value capitalize_filter(Arguments& arguments) {
  return mapped<capitalize>(arguments, "do_capitalize");
}

// A word begins after white space, a hyphen or an opening bracket.
std::string title_of(std::string_view text) {
  std::string out;
  bool was_separator = true;
  size_t word = 0;
  const auto is_separator = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  const auto flush = [&](size_t end) {
    if (word == end) return;
    size_t rest = word;
    next_character(text, rest);
    out += upper(text.substr(word, rest - word));
    out += lower(text.substr(rest, end - rest));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool separates = is_separator(next_character(text, at));
    if (separates != was_separator) {
      flush(begin);
      word = begin;
      was_separator = separates;
    }
  }
  flush(text.size());
  return out;
}
Value title_filter(Arguments& arguments) { return mapped<title_of>(arguments, "do_title"); }

Value string_filter(Arguments& arguments) {
  return soft(bind_positional(arguments, "soft_str", 1, 1)[0]);
}

Value trim(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_trim", {"value", "chars"}, 1);
  const Value text = soft(values[0]);
  if (!values[1].is_missing() && !values[1].is_none() && !values[1].is_string()) {
    raise(Exception::type, "strip arg must be {}", "None or str");
  }
  return Value::string(std::string(strip(text.text(), values[1], true, true)), text.is_markup());
}

Value center_filter(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_center", {"value", "width"}, 1);
  const Value text = soft(values[0]);
  return Value::string(pad(text.string(), integer_argument(values[1], 80), ' ', Padding::center),
                       text.is_markup());
}

Value replace_filter(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_replace", {"s", "old", "new", "count"}, 3);
  const int64_t count = optional_integer(values[3], -1);
  if (!is_escaping()) {
    return Value::string(replace(str(values[0]), str(values[1]), str(values[2]), count));
  }
  const bool is_markup = values[0].is_markup() || values[1].is_markup() || values[2].is_markup();
  const auto part = [&](const Value& value) {
    return is_markup ? std::string(to_markup(value).text()) : str(value);
  };
  return Value::string(replace(part(values[0]), part(values[1]), part(values[2]), count),
                       is_markup);
}

Value format_filter(Arguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.named.empty()) {
    raise(Exception::filter_argument, "{}",
          "can't handle positional and keyword arguments at the same time");
  }
  const Value format = soft(arguments.positional[0]);
  if (!arguments.named.empty()) {
    const Ref<Dict> dict = make<Dict>();
    for (const auto& [name, value] : arguments.named) dict->set(name, value);
    return percent_format(format, dict);
  }
  std::vector<Value> items(arguments.positional.begin() + 1, arguments.positional.end());
  return percent_format(format, Value::tuple(std::move(items)));
}

Value truncate(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  const int64_t length = integer_argument(values[1], 255);
  const bool cuts_words = truth_argument(values[2], false);
  const Value end = values[3].is_missing() ? Value::string("...") : values[3];
  const int64_t leeway = optional_integer(values[4], 5);
  const int64_t end_length = length_of(end);
  if (length < end_length) {
    raise(Exception::assertion, "expected length >= {}, got {}", end_length, length);
  }
  if (leeway < 0) raise(Exception::assertion, "expected leeway >= 0, got {}", leeway);
  if (length_of(values[0]) <= length + leeway) return values[0];
  const std::string_view text = text_argument(values[0]);
  std::string_view kept =
      substring(text, values[0].string().length, 0, static_cast<size_t>(length - end_length));
  if (!cuts_words) kept = kept.substr(0, kept.rfind(' '));
  return Value::string(std::string(kept) + std::string(text_argument(end)), values[0].is_markup());
}

Value wordcount(Arguments& arguments) {
  const Value value = soft(bind(arguments, "do_wordcount", {"s"}, 1)[0]);
  const std::string_view text = value.text();
  int64_t count = 0;
  bool was_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool is_part = is_word(next_character(text, at));
    count += is_part && !was_word;
    was_word = is_part;
  }
  return Value::integer(count);
}

Value default_filter(Arguments& arguments) {
  std::vector<Value> values =
      bind(arguments, "do_default", {"value", "default_value", "boolean"}, 1);
  const bool replaces =
      values[0].is_undefined() || (truth_argument(values[2], false) && !is_true(values[0]));
  if (!replaces) return values[0];
  return values[1].is_missing() ? Value::string("") : values[1];
}

constexpr FunctionRow kTextFilters[] = {
    {"lower", lower_filter},   {"upper", upper_filter},     {"capitalize", capitalize_filter},
    {"title", title_filter},   {"string", string_filter},   {"trim", trim},
    {"center", center_filter}, {"replace", replace_filter}, {"format", format_filter},
    {"truncate", truncate},    {"wordcount", wordcount},    {"default", default_filter},
    {"d", default_filter},
};

}  // namespace

std::span<const FunctionRow> text_filters() { return kTextFilters; }

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
// Filters that make or take HTML, URLs and JSON.
#include <set>

#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/escaping.h"
#include "llm/template/filters.h"
#include "llm/template/html.h"
#include "llm/template/json.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

Value escape_filter(Arguments& arguments) {
  return to_markup(bind_positional(arguments, "escape", 1, 1)[0]);
}

Value forceescape(Arguments& arguments) {
  const Value value = bind(arguments, "do_forceescape", {"value"}, 1)[0];
  return Value::string(escape_html(str(value)), true);
}

Value safe(Arguments& arguments) {
  const Value value = bind(arguments, "do_mark_safe", {"value"}, 1)[0];
  return Value::string(str(value), true);
}

Value striptags(Arguments& arguments) {
  return Value::string(strip_tags(str(bind(arguments, "do_striptags", {"value"}, 1)[0])));
}

std::string quoted(const Value& value, bool is_query) {
  std::string out;
  for (const char c : str(value)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 &&
        (std::isalnum(byte) != 0 || std::string_view("_.-~").find(c) != std::string_view::npos ||
         (c == '/' && !is_query))) {
      out += c;
    } else if (is_query && c == ' ') {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

Value urlencode(Arguments& arguments) {
  const Value value = bind(arguments, "do_urlencode", {"value"}, 1)[0];
  if (value.is_string() || !is_iterable(value)) return Value::string(quoted(value, false));
  std::string out;
  bool is_first = true;
  const auto add = [&](const Value& key, const Value& item) {
    if (!is_first) out += '&';
    is_first = false;
    out += quoted(key, true) + "=" + quoted(item, true);
    if (out.size() > 4096) foresee(out.size());
  };
  if (value.is(Type::dict)) {
    for (const auto& [key, item] : value.dict().entries) add(key, item);
    return Value::string(std::move(out));
  }
  Cursor cursor(value);
  Value pair;
  while (cursor.next(pair)) {
    if (!is_iterable(pair)) {
      raise(Exception::type, "cannot unpack non-iterable {} object", type_name(pair));
    }
    const std::vector<Value> parts = to_vector(pair);
    if (parts.size() != 2) {
      raise(Exception::value, "{} values to unpack (expected 2{})",
            parts.size() < 2 ? "not enough" : "too many",
            parts.size() < 2 ? fmt::format(", got {}", parts.size()) : "");
    }
    add(parts[0], parts[1]);
  }
  return Value::string(std::move(out));
}

Value xmlattr(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_xmlattr", {"d", "autospace"}, 1);
  if (values[0].is_undefined()) values[0].undefined().fail();
  if (!values[0].is(Type::dict)) {
    raise(Exception::attribute, "'{}' object has no attribute 'items'", type_name(values[0]));
  }
  std::string out;
  for (const auto& [key, value] : values[0].dict().entries) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) {
      raise(Exception::type, "expected string or bytes-like object, got '{}'", type_name(key));
    }
    if (key.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      raise(Exception::value, "Invalid character in attribute name: {}", repr(key));
    }
    if (!out.empty()) out += ' ';
    out += to_markup(key).text();
    out += "=\"";
    out += to_markup(value).text();
    out += '"';
    if (out.size() > 4096) foresee(out.size());
  }
  if (truth_argument(values[1], true) && !out.empty()) out.insert(0, " ");
  return Value::string(std::move(out), is_escaping());
}

void add_words(std::set<std::string>& words, std::string_view text) {
  size_t begin = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = at;
    const bool is_end = at == text.size() || is_space(next_character(text, at));
    if (!is_end) continue;
    if (end > begin) words.emplace(text.substr(begin, end - begin));
    begin = at;
    if (end == text.size()) break;
  }
}

Value urlize_filter(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_urlize",
           {"value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes"}, 1);
  const auto is_given = [](const Value& value) { return !value.is_missing() && !value.is_none(); };
  std::set<std::string> words{"noopener"};
  if (is_given(values[4])) add_words(words, text_argument(values[4]));
  if (truth_argument(values[2], false)) words.insert("nofollow");
  UrlStyle style;
  for (const std::string& word : words) style.rel += (style.rel.empty() ? "" : " ") + word;
  if (is_given(values[3])) style.target = str(values[3]);
  style.trim_limit = optional_integer(values[1], -1);
  if (is_given(values[5])) {
    for (const Value& scheme : to_vector(values[5])) {
      if (!is_uri_scheme(text_argument(scheme))) {
        raise(Exception::filter_argument, "{} is not a valid URI scheme prefix.", repr(scheme));
      }
      style.extra_schemes.emplace_back(scheme.text());
    }
  }
  std::string out = urlize(std::string(to_markup(values[0]).text()), style);
  return Value::string(std::move(out), is_escaping());
}

constexpr FunctionRow kRows[] = {
    {"e", escape_filter},         {"escape", escape_filter},
    {"forceescape", forceescape}, {"safe", safe},
    {"striptags", striptags},     {"urlencode", urlencode},
    {"urlize", urlize_filter},    {"xmlattr", xmlattr},
    {"tojson", tojson_filter},
};

}  // namespace

std::span<const FunctionRow> html_filters() { return kRows; }

}  // namespace lathe::templates

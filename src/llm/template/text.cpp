// SPDX-License-Identifier: MIT
#include "llm/template/text.h"

#include "llm/template/budget.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

void append_hex_escape(std::string& text, char32_t character) {
  const auto code = static_cast<uint32_t>(character);
  if (code < 0x100) {
    text += fmt::format("\\x{:02x}", code);
  } else if (code < 0x10000) {
    text += fmt::format("\\u{:04x}", code);
  } else {
    text += fmt::format("\\U{:08x}", code);
  }
}

void append_string_repr(std::string& text, std::string_view value) {
  step_text(value.size());
  const bool has_single = value.find('\'') != std::string_view::npos;
  const char quote = has_single && value.find('"') == std::string_view::npos ? '"' : '\'';
  text += quote;
  for (size_t at = 0; at < value.size();) {
    const size_t begin = at;
    const char32_t c = next_character(value, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c == '\t') {
      text += "\\t";
    } else if (is_printable(c)) {
      text.append(value, begin, at - begin);
    } else {
      append_hex_escape(text, c);
    }
  }
  text += quote;
}

void append_items(std::string& text, const std::vector<Value>& items) {
  bool is_first = true;
  for (const Value& item : items) {
    if (!is_first) text += ", ";
    is_first = false;
    append_repr(text, item);
  }
}

void append_dict(std::string& text, const Dict& dict) {
  text += '{';
  bool is_first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!is_first) text += ", ";
    is_first = false;
    append_repr(text, key);
    text += ": ";
    append_repr(text, value);
  }
  text += '}';
}

void append_view(std::string& text, const Value& value) {
  text += type_name(value);
  text += "([";
  append_items(text, to_vector(value));
  text += "])";
}

void append_range(std::string& text, const Range& range) {
  text += fmt::format("range({}, {}", range.start, range.stop);
  if (range.step != 1) text += fmt::format(", {}", range.step);
  text += ')';
}

}  // namespace

void append_repr(std::string& text, const Value& value) {
  const Level level;
  step(1);
  if (text.size() > 4096) foresee(text.size());
  switch (value.type()) {
    case Type::missing:
      text += "missing";
      return;
    case Type::undefined:
      text += "Undefined";
      return;
    case Type::none:
      text += "None";
      return;
    case Type::boolean:
      text += value.truth() ? "True" : "False";
      return;
    case Type::integer:
      text += fmt::format("{}", value.whole());
      return;
    case Type::real:
      text += float_repr(value.number());
      return;
    case Type::string:
      if (value.is_markup()) text += "Markup(";
      append_string_repr(text, value.text());
      if (value.is_markup()) text += ')';
      return;
    case Type::list:
      text += '[';
      append_items(text, value.items());
      text += ']';
      return;
    case Type::tuple:
      text += '(';
      append_items(text, value.items());
      text += value.items().size() == 1 ? ",)" : ")";
      return;
    case Type::dict:
      append_dict(text, value.dict());
      return;
    case Type::range:
      append_range(text, value.range());
      return;
    case Type::dict_view:
      append_view(text, value);
      return;
    case Type::iterator:
      text += fmt::format("<{} object>", value.iterator().type_name);
      return;
    case Type::name_space:
      text += "<Namespace ";
      append_dict(text, *value.name_space().attributes);
      text += '>';
      return;
    case Type::callable:
      text += value.callable().representation();
      return;
  }
}

void append_str(std::string& text, const Value& value) {
  if (value.is_string()) {
    step_text(value.text().size());
    text += value.text();
  } else if (!value.is_undefined()) {
    append_repr(text, value);
  }
}

std::string str(const Value& value) {
  std::string text;
  append_str(text, value);
  return text;
}

std::string repr(const Value& value) {
  std::string text;
  append_repr(text, value);
  return text;
}

std::string ascii(const Value& value) {
  const std::string text = repr(value);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      append_hex_escape(out, c);
    }
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value to_markup(const Value& value) {
  if (value.is_markup()) return value;
  return Value::string(escape_html(str(value)), true);
}

}  // namespace lathe::templates

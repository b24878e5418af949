// SPDX-License-Identifier: MIT
#include "llm/template/str_format.h"

#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

[[noreturn]] void fail_value(std::string text) { raise_text(Exception::value, std::move(text)); }

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Value index_or_name(std::string_view text) {
  if (!is_digits(text)) return Value::string(std::string(text));
  if (text.size() > 18) fail_value("Too many decimal digits in format string");
  return Value::integer(*parse_integer(text));
}

class Formatter {
 public:
  Formatter(const Value& format, const std::vector<Value>& positional, const Value& named)
      : is_markup_(format.is_markup()), positional_(positional), named_(named) {}

  std::string run(std::string_view text, int depth) {
    if (depth < 0) fail_value("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c != '{' && c != '}') {
        const size_t end = std::min(text.find_first_of("{}", at), text.size());
        out += text.substr(at, end - at);
        at = end;
        continue;
      }
      if (at + 1 < text.size() && text[at + 1] == c) {
        out += c;
        at += 2;
        continue;
      }
      if (c == '}') fail_value("Single '}' encountered in format string");
      if (at + 1 == text.size()) fail_value("Single '{' encountered in format string");
      out += field(field_text(text, at), depth);
      if (out.size() > 4096) foresee(out.size());
    }
    return out;
  }

 private:
  // Returns the text between the braces and moves `at` behind them.
  static std::string_view field_text(std::string_view text, size_t& at) {
    const size_t begin = ++at;
    int open = 1;
    for (; at < text.size(); ++at) {
      open += text[at] == '{';
      open -= text[at] == '}';
      if (open == 0) return text.substr(begin, at++ - begin);
      if (text[at] == '[') {
        const size_t close = text.find(']', at);
        if (close == std::string_view::npos) break;
        at = close;
      }
    }
    fail_value("expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    step_text(text.size());
    size_t end = 0;
    while (end < text.size() && text[end] != ':' && text[end] != '!') {
      if (text[end] == '{') fail_value("unexpected '{' in field name");
      if (text[end] == '[') end = std::min(text.find(']', end), text.size() - 1);
      ++end;
    }
    const std::string_view name = text.substr(0, end);
    char conversion = '\0';
    if (end < text.size() && text[end] == '!') {
      if (end + 1 >= text.size())
        fail_value("end of string while looking for conversion specifier");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') {
        fail_value("expected ':' after conversion specifier");
      }
    }
    const std::string_view specification = end < text.size() ? text.substr(end + 1) : "";
    const Value value = converted(lookup(name), conversion);
    const std::string format = run(specification, depth - 1);
    if (is_markup_) {
      if (value.is_markup() && format.empty()) return std::string(value.text());
      return escape_html(format_value(value, format));
    }
    return format_value(value, format);
  }

  static Value converted(const Value& value, char conversion) {
    switch (conversion) {
      case '\0':
        return value;
      case 's':
        return Value::string(str(value));
      case 'r':
        return Value::string(repr(value));
      case 'a':
        return Value::string(ascii(value));
      default:
        fail_value(fmt::format("Unknown conversion specifier {}", conversion));
    }
  }

  Value lookup(std::string_view name) {
    std::string numbered;
    if (name.empty()) {
      if (is_manual_) {
        fail_value("cannot switch from manual field specification to automatic field numbering");
      }
      numbered = fmt::format("{}", next_++);
      name = numbered;
    } else if (is_digits(name)) {
      if (next_ > 0) {
        fail_value("cannot switch from manual field specification to automatic field numbering");
      }
      is_manual_ = true;
    }
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(index_or_name(name.substr(0, end)));
    for (size_t at = end; at < name.size();) {
      if (name[at] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", at + 1), name.size());
        if (stop == at + 1) fail_value("Empty attribute in format string");
        value = get_attribute(value, name.substr(at + 1, stop - at - 1));
        at = stop;
      } else if (name[at] == '[') {
        const size_t close = name.find(']', at);
        if (close == std::string_view::npos) fail_value("Missing ']' in format string");
        if (close == at + 1) fail_value("Empty attribute in format string");
        value = get_item(value, index_or_name(name.substr(at + 1, close - at - 1)));
        at = close + 1;
      } else {
        fail_value("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value first(const Value& key) const {
    if (key.is(Type::integer)) {
      if (key.whole() >= static_cast<int64_t>(positional_.size())) {
        raise(Exception::index, "Replacement index {} out of range for positional args tuple",
              key.whole());
      }
      return positional_[static_cast<size_t>(key.whole())];
    }
    Value value = python_item(named_, key);
    if (value.is_missing()) raise_text(Exception::key, repr(key));
    return value;
  }

  const bool is_markup_;
  const std::vector<Value>& positional_;
  const Value& named_;
  bool is_manual_ = false;
  int64_t next_ = 0;
};

}  // namespace

Value str_format(const Value& format, Arguments& arguments) {
  const Ref<Dict> dict = make<Dict>();
  for (const auto& [name, value] : arguments.named) dict->set(name, value);
  const Value named = dict;
  std::string text = Formatter(format, arguments.positional, named).run(format.text(), 2);
  return Value::string(std::move(text), format.is_markup());
}

Value str_format_map(const Value& format, Arguments& arguments) {
  if (!arguments.named.empty()) {
    raise(Exception::type, "{}", "format_map() takes no keyword arguments");
  }
  if (arguments.positional.size() != 1) {
    raise(Exception::type, "format_map() takes exactly one argument ({} given)",
          arguments.positional.size());
  }
  std::string text = Formatter(format, {}, arguments.positional[0]).run(format.text(), 2);
  return Value::string(std::move(text), format.is_markup());
}

}  // namespace lathe::templates

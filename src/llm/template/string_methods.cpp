// SPDX-License-Identifier: MIT
// Methods of str that change case, pad, strip, join and format.
#include <algorithm>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/operators.h"
#include "llm/template/str_format.h"
#include "llm/template/string_tools.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

// A result of a method of `self`: Markup if `self` is.
Value same(const Value& self, std::string text) {
  return Value::string(std::move(text), self.is_markup());
}

template <auto function>
Value mapped(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "str method", 0, 0);
  step_text(self.text().size());
  return same(self, function(self.text()));
}

template <bool at_left, bool at_right>
Value stripped(const Value& self, Arguments& arguments) {
  const Value set = bind_positional(arguments, "strip", 0, 1)[0];
  if (!set.is_missing() && !set.is_none() && !set.is_string()) {
    raise(Exception::type, "strip arg must be {}", "None or str");
  }
  return same(self, std::string(strip(self.text(), set, at_left, at_right)));
}

template <Padding padding>
Value padded(const Value& self, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "ljust", 1, 2);
  const int64_t width = index_argument(values[0]);
  char32_t fill = ' ';
  if (!values[1].is_missing()) {
    if (!values[1].is_string() || values[1].string().length != 1) {
      raise(Exception::type, "{}", "The fill character must be exactly one character long");
    }
    size_t at = 0;
    fill = next_character(values[1].text(), at);
  }
  return same(self, pad(self.string(), width, fill, padding));
}

Value zfill(const Value& self, Arguments& arguments) {
  const int64_t width = index_argument(bind_positional(arguments, "zfill", 1, 1)[0]);
  const std::string_view text = self.text();
  const bool has_sign = text.starts_with('+') || text.starts_with('-');
  std::string out = pad(self.string(), width, '0', Padding::right);
  if (has_sign && out.size() > text.size()) {
    out[out.size() - text.size()] = '0';
    out[0] = text[0];
  }
  return same(self, std::move(out));
}

Value expandtabs(const Value& self, Arguments& arguments) {
  const int64_t size = integer_argument(bind(arguments, "expandtabs", {"tabsize"}, 0)[0], 8);
  const std::string_view text = self.text();
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      foresee(out.size() + static_cast<uint64_t>(spaces));
      step_text(static_cast<size_t>(spaces));
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
      continue;
    }
    out += text.substr(begin, at - begin);
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return same(self, std::move(out));
}

Value join_method(const Value& self, Arguments& arguments) {
  const Value items = bind_positional(arguments, "join", 1, 1)[0];
  if (!is_iterable(items)) raise(Exception::type, "{}", "can only join an iterable");
  std::string out;
  Cursor cursor(items);
  Value item;
  for (size_t i = 0; cursor.next(item); ++i) {
    if (!item.is_string()) {
      raise(Exception::type, "sequence item {}: expected str instance, {} found", i,
            type_name(item));
    }
    step_text(self.text().size());
    if (i > 0) out += self.text();
    out += self.is_markup() ? to_markup(item).text() : item.text();
    if (out.size() > 4096) foresee(out.size());
  }
  return same(self, std::move(out));
}

Value replace_method(const Value& self, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "replace", 2, 3);
  const auto part = [&](size_t i) {
    if (!values[i].is_string()) {
      raise(Exception::type, "replace() argument {} must be str, not {}", i + 1,
            type_name(values[i]));
    }
    return self.is_markup() && i == 1 ? to_markup(values[i]) : values[i];
  };
  const Value from = part(0);
  const Value to = part(1);
  return same(self, replace(self.text(), from.text(), to.text(), integer_argument(values[2], -1)));
}

template <bool at_end>
Value without(const Value& self, Arguments& arguments) {
  const Value part = bind_positional(arguments, "removeprefix", 1, 1)[0];
  std::string_view text = self.text();
  const std::string_view what = text_argument(part);
  if (at_end && text.ends_with(what)) text.remove_suffix(what.size());
  if (!at_end && text.starts_with(what)) text.remove_prefix(what.size());
  return same(self, std::string(text));
}

Value translate(const Value& self, Arguments& arguments) {
  const Value table = bind_positional(arguments, "translate", 1, 1)[0];
  std::string out;
  const std::string_view text = self.text();
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    const Value to = python_item(table, Value::integer(static_cast<int64_t>(c)));
    if (to.is_missing()) {
      append_character(out, c);
    } else if (to.is_string()) {
      out += to.text();
    } else if (!to.is_none()) {
      const int64_t code = index_argument(to);
      if (code < 0 || code > 0x10ffff) {
        raise(Exception::value, "character mapping must be in range({})", "0x110000");
      }
      append_character(out, static_cast<char32_t>(code));
    }
    if (out.size() > 4096) foresee(out.size());
    step(1);
  }
  return same(self, std::move(out));
}

Value maketrans(const Value&, Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "maketrans", 1, 3);
  const Ref<Dict> table = make<Dict>();
  if (values[1].is_missing()) {
    if (!values[0].is(Type::dict)) {
      raise(Exception::type, "{}", "the only argument of maketrans must be a dict");
    }
    for (const auto& [key, value] : values[0].dict().entries) {
      if (key.is_string()) {
        if (key.string().length != 1) {
          raise(Exception::value, "{}", "string keys in translate table must be of length 1");
        }
        size_t at = 0;
        table->set(Value::integer(static_cast<int64_t>(next_character(key.text(), at))), value);
      } else {
        table->set(Value::integer(index_argument(key)), value);
      }
    }
    return table;
  }
  const std::u32string from = to_characters(text_argument(values[0]));
  const std::u32string to = to_characters(text_argument(values[1]));
  if (from.size() != to.size()) {
    raise(Exception::value, "{}", "the first two maketrans arguments must have equal length");
  }
  for (size_t i = 0; i < from.size(); ++i) {
    table->set(Value::integer(static_cast<int64_t>(from[i])),
               Value::integer(static_cast<int64_t>(to[i])));
  }
  for (const char32_t c : to_characters(text_argument(values[2]))) {
    table->set(Value::integer(static_cast<int64_t>(c)), Value());
  }
  return table;
}

Value encode(const Value&, Arguments&) {
  raise(Exception::unsupported, "str.{}() returns bytes, which are not supported", "encode");
}

constexpr Method kMethods[] = {
    {"lower", mapped<lower>},
    {"upper", mapped<upper>},
    {"title", mapped<title>},
    {"capitalize", mapped<capitalize>},
    {"swapcase", mapped<swap_case>},
    {"casefold", mapped<fold_case>},
    {"strip", stripped<true, true>},
    {"lstrip", stripped<true, false>},
    {"rstrip", stripped<false, true>},
    {"ljust", padded<Padding::left>},
    {"rjust", padded<Padding::right>},
    {"center", padded<Padding::center>},
    {"zfill", zfill},
    {"expandtabs", expandtabs},
    {"join", join_method},
    {"replace", replace_method},
    {"removeprefix", without<false>},
    {"removesuffix", without<true>},
    {"format", str_format},
    {"format_map", str_format_map},
    {"translate", translate},
    {"maketrans", maketrans},
    {"encode", encode},
};

}  // namespace

std::span<const Method> string_methods() { return kMethods; }

}  // namespace lathe::templates

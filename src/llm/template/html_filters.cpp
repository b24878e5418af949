// SPDX-License-Identifier: MIT
// Filters for HTML, URLs and JSON.
#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/json.h"
#include "llm/template/text.h"

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

constexpr FunctionRow kRows[] = {
    {"e", escape_filter}, {"escape", escape_filter}, {"forceescape", forceescape},
    {"safe", safe},       {"urlencode", urlencode},  {"tojson", tojson_filter},
};

}  // namespace

std::span<const FunctionRow> html_filters() { return kRows; }

}  // namespace lathe::templates

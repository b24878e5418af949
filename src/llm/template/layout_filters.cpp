// SPDX-License-Identifier: MIT
// Filters that lay text out in lines.
#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/operators.h"
#include "llm/template/string_tools.h"
#include "llm/template/text.h"
#include "llm/template/text_wrap.h"

namespace lathe::templates {
namespace {

Value indent(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_indent", {"s", "width", "first", "blank"}, 1);
  const Value& value = values[0];
  std::string space;
  if (values[1].is_string()) {
    space = value.is_markup() ? std::string(to_markup(values[1]).text())
                              : std::string(values[1].text());
  } else {
    const int64_t width = std::max(int64_t{0}, integer_argument(values[1], 4));
    foresee(static_cast<uint64_t>(width));
    space.assign(static_cast<size_t>(width), ' ');
  }
  const bool indents_blank = truth_argument(values[3], false);
  if (value.is(Type::list)) {
    raise(Exception::attribute, "'{}' object has no attribute 'splitlines'", "list");
  }
  const Value text = binary(Kind::add, value, Value::string("\n", value.is_markup()));
  std::string out;
  bool is_first = true;
  for (const std::string_view line : split_lines(text.text(), false)) {
    if (!is_first) out += '\n';
    const bool has_space =
        is_first ? truth_argument(values[2], false) : indents_blank || !line.empty();
    is_first = false;
    step_text(space.size());
    if (has_space) out += space;
    out += line;
    if (out.size() > 4096) foresee(out.size());
  }
  return Value::string(std::move(out), value.is_markup());
}

Value wordwrap(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_wordwrap",
           {"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"}, 1);
  if (values[0].is_undefined()) values[0].undefined().fail();
  if (!values[0].is_string()) {
    raise(Exception::attribute, "'{}' object has no attribute 'splitlines'", type_name(values[0]));
  }
  WrapStyle style;
  style.width = integer_argument(values[1], 79);
  style.breaks_long_words = truth_argument(values[2], true);
  style.breaks_on_hyphens = truth_argument(values[4], true);
  const bool has_between = !values[3].is_missing() && !values[3].is_none();
  const std::string_view between = has_between ? text_argument(values[3]) : "\n";
  std::string out;
  bool is_first_line = true;
  for (const std::string_view line : split_lines(values[0].text(), false)) {
    if (!is_first_line) out += between;
    is_first_line = false;
    bool is_first = true;
    for (const std::string& part : wrap(line, style)) {
      if (!is_first) out += between;
      is_first = false;
      step_text(between.size());
      out += part;
    }
    if (out.size() > 4096) foresee(out.size());
  }
  return Value::string(std::move(out));
}

Value pprint(Arguments& arguments) {
  return Value::string(pretty(bind(arguments, "do_pprint", {"value"}, 1)[0]));
}

constexpr FunctionRow kRows[] = {
    {"indent", indent},
    {"wordwrap", wordwrap},
    {"pprint", pprint},
};

}  // namespace

std::span<const FunctionRow> layout_filters() { return kRows; }

}  // namespace lathe::templates

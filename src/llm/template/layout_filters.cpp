// SPDX-License-Identifier: MIT
// The filter indent.
#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/operators.h"
#include "llm/template/string_tools.h"
#include "llm/template/text.h"

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

constexpr FunctionRow kLayoutFilters[] = {
    {"indent", indent},
};

}  // namespace

std::span<const FunctionRow> layout_filters() { return kLayoutFilters; }

}  // namespace lathe::templates

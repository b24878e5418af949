// SPDX-License-Identifier: MIT
#include "llm/template/tests.h"

#include <map>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/budget.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

template <Type type>
Value is_type(Arguments& arguments) {
  return Value::boolean(bind(arguments, "test", {"value"}, 1)[0].is(type));
}

template <bool (*predicate)(const Value&)>
Value one(Arguments& arguments) {
  return Value::boolean(predicate(bind(arguments, "test", {"value"}, 1)[0]));
}

template <Comparison comparison>
Value two(Arguments& arguments) {
  const std::vector<Value> values = bind_positional(arguments, "operator", 2, 2);
  return Value::boolean(compare(comparison, values[0], values[1]));
}

bool has_rest(const Value& value, const Value& divisor, int64_t rest) {
  return equal(binary(Kind::modulo, value, divisor), Value::integer(rest));
}
bool is_odd(const Value& value) { return has_rest(value, Value::integer(2), 1); }
bool is_even(const Value& value) { return has_rest(value, Value::integer(2), 0); }
Value divisible_by(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "test_divisibleby", {"value", "num"}, 2);
  return Value::boolean(has_rest(values[0], values[1], 0));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_false(const Value& value) { return value.is(Type::boolean) && !value.truth(); }
bool is_truth(const Value& value) { return value.is(Type::boolean) && value.truth(); }
bool is_a_number(const Value& value) { return value.is_number(); }
bool is_escaped(const Value& value) { return value.is_markup(); }
bool is_filter(const Value& value) {
  hash(value);
  return value.is_string() && find_filter(value.text()) != nullptr;
}
bool is_test(const Value& value) {
  hash(value);
  return value.is_string() && find_test(value.text()) != nullptr;
}

// True for values with a length and items.
bool is_a_sequence(const Value& value) {
  return has_length(value) && !value.is(Type::dict_view) && !value.is(Type::callable);
}

// str.islower and str.isupper: some character has the case and none has the other.
bool has_case(const Value& value, bool (*is_case)(char32_t), bool (*other)(char32_t)) {
  const std::string text = str(value);
  step_text(text.size());
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (other(c) || is_title(c)) return false;
    found = found || is_case(c);
  }
  return found;
}
bool is_lower_text(const Value& value) { return has_case(value, is_lower, is_upper); }
bool is_upper_text(const Value& value) { return has_case(value, is_upper, is_lower); }

Value same_as(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "test_sameas", {"value", "other"}, 2);
  const Value& a = values[0];
  const Value& b = values[1];
  if (a.type() != b.type()) return Value::boolean(false);
  if (a.is_string()) return Value::boolean(a.text() == b.text());
  return Value::boolean(a.object() != nullptr ? a.object() == b.object() : equal(a, b));
}

Value is_in(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "test_in", {"value", "seq"}, 2);
  return Value::boolean(contains(values[1], values[0]));
}

constexpr FunctionRow kRows[] = {
    {"odd", one<is_odd>},
    {"even", one<is_even>},
    {"divisibleby", divisible_by},
    {"defined", one<is_defined>},
    {"undefined", is_type<Type::undefined>},
    {"filter", one<is_filter>},
    {"test", one<is_test>},
    {"none", is_type<Type::none>},
    {"boolean", is_type<Type::boolean>},
    {"false", one<is_false>},
    {"true", one<is_truth>},
    {"integer", is_type<Type::integer>},
    {"float", is_type<Type::real>},
    {"lower", one<is_lower_text>},
    {"upper", one<is_upper_text>},
    {"string", is_type<Type::string>},
    {"mapping", is_type<Type::dict>},
    {"number", one<is_a_number>},
    {"sequence", one<is_a_sequence>},
    {"iterable", one<is_iterable>},
    {"callable", one<is_callable>},
    {"sameas", same_as},
    {"escaped", one<is_escaped>},
    {"in", is_in},
    {"==", two<Comparison::eq>},
    {"eq", two<Comparison::eq>},
    {"equalto", two<Comparison::eq>},
    {"!=", two<Comparison::ne>},
    {"ne", two<Comparison::ne>},
    {">", two<Comparison::gt>},
    {"gt", two<Comparison::gt>},
    {"greaterthan", two<Comparison::gt>},
    {"ge", two<Comparison::gteq>},
    {">=", two<Comparison::gteq>},
    {"<", two<Comparison::lt>},
    {"lt", two<Comparison::lt>},
    {"lessthan", two<Comparison::lt>},
    {"<=", two<Comparison::lteq>},
    {"le", two<Comparison::lteq>},
};

}  // namespace

Function find_test(std::string_view name) {
  static const std::map<std::string_view, Function> tests = [] {
    std::map<std::string_view, Function> all;
    for (const FunctionRow& row : kRows) all.emplace(row.name, row.function);
    return all;
  }();
  const auto found = tests.find(name);
  return found == tests.end() ? nullptr : found->second;
}

Value call_test(const Value& name, Arguments& arguments) {
  const Level level;
  const Function function = name.is_string() ? find_test(name.text()) : nullptr;
  if (function == nullptr) {
    std::string text = fmt::format("No test named {}.", repr(name));
    if (name.is_undefined()) {
      text += fmt::format(" ({}; did you forget to quote the callable name?)",
                          name.undefined().message());
    }
    raise_text(Exception::template_runtime, std::move(text));
  }
  return function(arguments);
}

}  // namespace lathe::templates

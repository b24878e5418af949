// SPDX-License-Identifier: MIT
// Filters over numbers.
#include <cmath>

#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/filters.h"
#include "llm/template/numbers.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

Value abs_filter(Arguments& arguments) {
  const Value value = bind_positional(arguments, "abs", 1, 1)[0];
  if (!value.is_number()) {
    raise(Exception::type, "bad operand type for abs(): '{}'", type_name(value));
  }
  if (value.is(Type::real)) return Value::real(std::fabs(value.number()));
  return value.whole() < 0 ? unary(Kind::negative, value) : Value::integer(value.whole());
}

std::optional<int64_t> whole_of(double number) {
  if (std::isnan(number)) return {};
  if (std::isinf(number)) {
    raise(Exception::overflow, "cannot convert float {} to integer", "infinity");
  }
  return truncated(number);
}

Value int_filter(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_int", {"value", "default", "base"}, 1);
  const Value& value = values[0];
  const Value otherwise = values[1].is_missing() ? Value::integer(0) : values[1];
  const int64_t base = integer_argument(values[2], 10);
  if (value.is_undefined()) value.undefined().fail();
  if (value.is_integral()) return Value::integer(value.whole());
  if (value.is(Type::real)) {
    const std::optional<int64_t> whole = whole_of(value.number());
    return whole ? Value::integer(*whole) : otherwise;
  }
  if (!value.is_string()) return otherwise;
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto whole = parse_integer(value.text(), static_cast<int>(base))) {
      return Value::integer(*whole);
    }
  }
  const std::optional<double> number = parse_float(value.text());
  if (!number || !std::isfinite(*number)) return otherwise;
  return Value::integer(truncated(*number));
}

Value float_filter(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_float", {"value", "default"}, 1);
  const Value& value = values[0];
  const Value otherwise = values[1].is_missing() ? Value::real(0) : values[1];
  if (value.is_undefined()) value.undefined().fail();
  if (value.is_number()) return Value::real(value.number());
  if (!value.is_string()) return otherwise;
  const std::optional<double> number = parse_float(value.text());
  return number ? Value::real(*number) : otherwise;
}

Value round_filter(Arguments& arguments) {
  const std::vector<Value> values =
      bind(arguments, "do_round", {"value", "precision", "method"}, 1);
  const Value& value = values[0];
  const std::string method = values[2].is_missing() ? "common" : str(values[2]);
  if (method != "common" && method != "ceil" && method != "floor") {
    raise(Exception::filter_argument, "{}", "method must be common, ceil or floor");
  }
  const Value precision = values[1].is_missing() ? Value::integer(0) : values[1];
  if (method == "common") {
    if (!value.is_number()) {
      raise(Exception::type, "type {} doesn't define __round__ method", type_name(value));
    }
    return rounded(value, index_argument(precision));
  }
  const Value scale = binary(Kind::power, Value::integer(10), precision);
  const Value scaled = binary(Kind::multiply, value, scale);
  if (!scaled.is_number()) raise(Exception::type, "must be real number, not {}", type_name(scaled));
  const double whole = method == "ceil" ? std::ceil(scaled.number()) : std::floor(scaled.number());
  if (!std::isfinite(whole)) {
    raise(std::isnan(whole) ? Exception::value : Exception::overflow,
          "cannot convert float {} to integer", float_repr(whole));
  }
  return binary(Kind::divide, Value::integer(truncated(whole)), scale);
}

Value filesizeformat(Arguments& arguments) {
  const std::vector<Value> values = bind(arguments, "do_filesizeformat", {"value", "binary"}, 1);
  const Value& value = values[0];
  double bytes = 0;
  if (value.is_undefined()) value.undefined().fail();
  if (value.is_number()) {
    bytes = value.number();
  } else if (value.is_string()) {
    const std::optional<double> number = parse_float(value.text());
    if (!number) raise(Exception::value, "could not convert string to float: {}", repr(value));
    bytes = *number;
  } else {
    raise(Exception::type, "float() argument must be a string or a real number, not '{}'",
          type_name(value));
  }
  const bool is_binary = truth_argument(values[1], false);
  const double base = is_binary ? 1024 : 1000;
  constexpr std::string_view kLetters = "kMGTPEZY";
  if (bytes == 1) return Value::string("1 Byte");
  if (bytes < base) {
    const std::optional<int64_t> whole = whole_of(bytes);
    return Value::string(fmt::format("{} Bytes", whole.value_or(0)));
  }
  if (std::isnan(bytes)) return Value::string(is_binary ? "nan YiB" : "nan YB");
  double unit = base;
  std::string prefix;
  for (const char letter : kLetters) {
    unit *= base;
    prefix =
        is_binary ? fmt::format("{}iB", letter == 'k' ? 'K' : letter) : fmt::format("{}B", letter);
    if (bytes < unit) break;
  }
  return Value::string(format_float(base * bytes / unit, 'f', 1) + " " + prefix);
}

constexpr FunctionRow kRows[] = {
    {"abs", abs_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"round", round_filter},
    {"filesizeformat", filesizeformat},
};

}  // namespace

std::span<const FunctionRow> number_filters() { return kRows; }

}  // namespace lathe::templates

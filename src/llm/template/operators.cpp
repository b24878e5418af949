// SPDX-License-Identifier: MIT
#include "llm/template/operators.h"

#include <cmath>

#include "llm/template/arguments.h"
#include "llm/template/budget.h"
#include "llm/template/percent_format.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

std::string_view symbol(Kind kind) {
  switch (kind) {
    case Kind::add:
      return "+";
    case Kind::subtract:
      return "-";
    case Kind::multiply:
      return "*";
    case Kind::divide:
      return "/";
    case Kind::floor_divide:
      return "//";
    case Kind::modulo:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void fail_operands(Kind kind, const Value& left, const Value& right) {
  if (left.is_undefined()) left.undefined().fail();
  if (right.is_undefined()) right.undefined().fail();
  if (kind == Kind::add && (left.is_string() || left.is_sequence())) {
    raise(Exception::type, "can only concatenate {} (not \"{}\") to {}", type_name(left),
          type_name(right), type_name(left));
  }
  const bool repeats =
      left.is_string() || left.is_sequence() || right.is_string() || right.is_sequence();
  if (kind == Kind::multiply && repeats) {
    const bool is_left = left.is_string() || left.is_sequence();
    raise(Exception::type, "can't multiply sequence by non-int of type '{}'",
          type_name(is_left ? right : left));
  }
  raise(Exception::type, "unsupported operand type(s) for {}: '{}' and '{}'", symbol(kind),
        type_name(left), type_name(right));
}

[[noreturn]] void fail_big(Kind kind, int64_t left, int64_t right) {
  raise(Exception::unsupported, "the integer {} {} {} needs more than 64 bits", left,
        symbol(kind).substr(0, 2), right);
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (int64_t factor = base, left = exponent; left > 0;) {
    if ((left & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) {
      fail_big(Kind::power, base, exponent);
    }
    left >>= 1;
    if (left > 0 && __builtin_mul_overflow(factor, factor, &factor)) {
      fail_big(Kind::power, base, exponent);
    }
  }
  return result;
}

Value real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) {
    raise(Exception::zero_division, "{} cannot be raised to a negative power", "0.0");
  }
  if (base < 0 && std::isfinite(exponent) && exponent != std::floor(exponent)) {
    raise(Exception::unsupported, "the complex number {} ** {} is not supported", float_repr(base),
          float_repr(exponent));
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    raise(Exception::overflow, "(34, '{}')", "Numerical result out of range");
  }
  return Value::real(result);
}

// Quotient and remainder with the sign of the divisor.
std::pair<double, double> real_divide(double left, double right) {
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0) {
    if ((right < 0) != (rest < 0)) {
      rest += right;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, right);
  }
  if (quotient == 0) return {std::copysign(0.0, left / right), rest};
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return {whole, rest};
}

Value integer_binary(Kind kind, int64_t left, int64_t right) {
  int64_t result = 0;
  bool is_big = false;
  switch (kind) {
    case Kind::add:
      is_big = __builtin_add_overflow(left, right, &result);
      break;
    case Kind::subtract:
      is_big = __builtin_sub_overflow(left, right, &result);
      break;
    case Kind::multiply:
      is_big = __builtin_mul_overflow(left, right, &result);
      break;
    case Kind::divide:
      if (right == 0) raise(Exception::zero_division, "{}", "division by zero");
      return Value::real(
          static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
    case Kind::floor_divide:
    case Kind::modulo: {
      if (right == 0) raise(Exception::zero_division, "{}", "integer division or modulo by zero");
      if (right == -1) {
        is_big = kind == Kind::floor_divide && __builtin_sub_overflow(int64_t{0}, left, &result);
        break;
      }
      int64_t quotient = left / right;
      if (left % right != 0 && (left < 0) != (right < 0)) --quotient;
      result = kind == Kind::floor_divide ? quotient : left - quotient * right;
      break;
    }
    default:
      if (right < 0) return real_power(static_cast<double>(left), static_cast<double>(right));
      return Value::integer(integer_power(left, right));
  }
  if (is_big) fail_big(kind, left, right);
  return Value::integer(result);
}

Value real_binary(Kind kind, double left, double right) {
  switch (kind) {
    case Kind::add:
      return Value::real(left + right);
    case Kind::subtract:
      return Value::real(left - right);
    case Kind::multiply:
      return Value::real(left * right);
    case Kind::divide:
      if (right == 0) raise(Exception::zero_division, "{}", "float division by zero");
      return Value::real(left / right);
    case Kind::floor_divide:
      if (right == 0) raise(Exception::zero_division, "{}", "float floor division by zero");
      return Value::real(real_divide(left, right).first);
    case Kind::modulo:
      if (right == 0) raise(Exception::zero_division, "{}", "float modulo");
      return Value::real(real_divide(left, right).second);
    default:
      return real_power(left, right);
  }
}

Value repeat(const Value& value, int64_t count) {
  const uint64_t times = count > 0 ? static_cast<uint64_t>(count) : 0;
  if (value.is_string()) {
    const std::string_view text = value.text();
    if (text.empty() || times == 0) return Value::string("", value.is_markup());
    foresee(times > (uint64_t{1} << 40) ? ~uint64_t{0} : times * text.size());
    std::string out;
    out.reserve(text.size() * times);
    for (uint64_t i = 0; i < times; ++i) out += text;
    return Value::string(std::move(out), value.is_markup());
  }
  const std::vector<Value>& items = value.items();
  std::vector<Value> out;
  if (!items.empty() && times > 0) {
    foresee(times > (uint64_t{1} << 40) ? ~uint64_t{0} : times * items.size() * sizeof(Value));
    step(times * items.size());
    out.reserve(times * items.size());
    for (uint64_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return value.is(Type::list) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
}

Value concatenate(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    const bool is_markup = left.is_markup() || right.is_markup();
    foresee(left.text().size() + right.text().size());
    std::string out(is_markup ? to_markup(left).text() : left.text());
    out += is_markup ? to_markup(right).text() : right.text();
    return Value::string(std::move(out), is_markup);
  }
  if (!left.is_sequence() || left.type() != right.type()) fail_operands(Kind::add, left, right);
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  step(items.size());
  return left.is(Type::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace

Value binary(Kind kind, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return integer_binary(kind, left.whole(), right.whole());
  }
  if (left.is_number() && right.is_number()) {
    return real_binary(kind, left.number(), right.number());
  }
  if (kind == Kind::modulo && left.is_string()) return percent_format(left, right);
  if (kind == Kind::add) return concatenate(left, right);
  if (kind == Kind::multiply) {
    if ((left.is_string() || left.is_sequence()) && right.is_integral()) {
      return repeat(left, right.whole());
    }
    if ((right.is_string() || right.is_sequence()) && left.is_integral()) {
      return repeat(right, left.whole());
    }
  }
  fail_operands(kind, left, right);
}

Value unary(Kind kind, const Value& operand) {
  if (operand.is_undefined()) operand.undefined().fail();
  if (!operand.is_number()) {
    raise(Exception::type, "bad operand type for unary {}: '{}'",
          kind == Kind::negative ? "-" : "+", type_name(operand));
  }
  if (operand.is(Type::real)) {
    return Value::real(kind == Kind::negative ? -operand.number() : operand.number());
  }
  if (kind == Kind::positive) return Value::integer(operand.whole());
  return integer_binary(Kind::subtract, 0, operand.whole());
}

bool contains(const Value& container, const Value& item) {
  switch (container.type()) {
    case Type::string:
      if (!item.is_string()) {
        raise(Exception::type, "'in <string>' requires string as left operand, not {}",
              type_name(item));
      }
      step_text(container.text().size());
      return container.text().find(item.text()) != std::string_view::npos;
    case Type::dict:
      return container.dict().find(item) != nullptr;
    case Type::dict_view:
      if (container.view().kind == DictView::Kind::keys) {
        return container.view().of->find(item) != nullptr;
      }
      break;
    default:
      if (!is_iterable(container)) {
        raise(Exception::type, "argument of type '{}' is not iterable", type_name(container));
      }
  }
  Cursor cursor(container);
  Value candidate;
  while (cursor.next(candidate)) {
    if (equal(candidate, item)) return true;
  }
  return false;
}

namespace {

// -1, 0, 1, or 2 for unordered numbers (NaN).
int order(const Value& left, const Value& right, std::string_view sign) {
  const Level level;
  step(1);
  if (left.is_integral() && right.is_integral()) {
    return left.whole() < right.whole() ? -1 : left.whole() > right.whole();
  }
  if (left.is_number() && right.is_number()) {
    // Exact for integers and floats.
    const auto wide = [](const Value& value) -> long double {
      if (value.is(Type::real)) return value.number();
      return static_cast<long double>(value.whole());
    };
    const long double a = wide(left);
    const long double b = wide(right);
    if (std::isnan(a) || std::isnan(b)) return 2;
    return a < b ? -1 : a > b;
  }
  if (left.is_string() && right.is_string()) {
    step_text(left.text().size());
    const int result = left.text().compare(right.text());
    return result < 0 ? -1 : result > 0;
  }
  if (left.is_sequence() && left.type() == right.type()) {
    const auto& a = left.items();
    const auto& b = right.items();
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (!equal(a[i], b[i])) return order(a[i], b[i], sign);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size();
  }
  if (left.is_undefined()) left.undefined().fail();
  if (right.is_undefined()) right.undefined().fail();
  raise(Exception::type, "'{}' not supported between instances of '{}' and '{}'", sign,
        type_name(left), type_name(right));
}

}  // namespace

bool less(const Value& left, const Value& right) { return order(left, right, "<") == -1; }

bool compare(Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::eq:
      return equal(left, right);
    case Comparison::ne:
      return !equal(left, right);
    case Comparison::in:
      return contains(right, left);
    case Comparison::not_in:
      return !contains(right, left);
    case Comparison::lt:
      return order(left, right, "<") == -1;
    case Comparison::gt:
      return order(left, right, ">") == 1;
    case Comparison::lteq: {
      const int result = order(left, right, "<=");
      return result == -1 || result == 0;
    }
    case Comparison::gteq: {
      const int result = order(left, right, ">=");
      return result == 1 || result == 0;
    }
  }
  return false;
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step_value) {
  const auto part = [](const Value& given, int64_t otherwise) {
    if (given.is_none()) return otherwise;
    if (!given.is_integral()) {
      raise(Exception::type, "slice indices must be integers or {} or have an __index__ method",
            "None");
    }
    return given.whole();
  };
  if (value.is_undefined()) value.undefined().fail();
  if (value.is(Type::dict)) raise(Exception::type, "unhashable type: '{}'", "slice");
  if (!value.is_string() && !value.is_sequence() && !value.is(Type::range)) {
    raise(Exception::type, "'{}' object is not subscriptable", type_name(value));
  }
  const int64_t stride = part(step_value, 1);
  if (stride == 0) raise(Exception::value, "{}", "slice step cannot be zero");
  const int64_t length = length_of(value);
  const int64_t low = stride < 0 ? -1 : 0;
  const int64_t high = stride < 0 ? length - 1 : length;
  const auto clip = [&](const Value& given, int64_t otherwise) {
    int64_t at = part(given, otherwise);
    if (given.is_none()) return at;
    if (at < 0) at = at < -length ? -1 : at + length;
    return at < low ? low : at > high ? high : at;
  };
  const int64_t first = clip(start, stride < 0 ? high : low);
  const int64_t last = clip(stop, stride < 0 ? low : high);
  Range picked;
  picked.start = first;
  picked.stop = last;
  picked.step = stride;
  const int64_t count = picked.length();
  if (value.is(Type::range)) {
    const Range& range = value.range();
    Ref<Range> out = make<Range>();
    out->start = range.start + first * range.step;
    out->stop = range.start + last * range.step;
    out->step = range.step * stride;
    return out;
  }
  if (value.is_string()) {
    const String& string = value.string();
    if (stride == 1) {
      step(1 + string.text.size() / 64);
      return Value::string(
          std::string(substring(string.text, string.length, static_cast<size_t>(first),
                                static_cast<size_t>(std::max(first, last)))),
          string.markup);
    }
    foresee(string.text.size() * 4);
    const std::u32string characters = to_characters(string.text);
    step(characters.size() / 16);
    std::u32string out;
    for (int64_t i = 0; i < count; ++i) out += characters[static_cast<size_t>(first + i * stride)];
    return Value::string(from_characters(out), string.markup);
  }
  std::vector<Value> items;
  foresee(static_cast<uint64_t>(count) * sizeof(Value));
  step(static_cast<uint64_t>(count));
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    items.push_back(value.items()[static_cast<size_t>(first + i * stride)]);
  }
  return value.is(Type::list) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace lathe::templates

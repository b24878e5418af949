// SPDX-License-Identifier: MIT
// Methods of int and float.
#include <bit>
#include <cmath>
#include <cstdlib>

#include "llm/template/arguments.h"
#include "llm/template/attributes.h"
#include "llm/template/numbers.h"
#include "llm/template/text.h"

namespace lathe::templates {
namespace {

uint64_t size_of(const Value& self) {
  const int64_t whole = self.whole();
  return whole < 0 ? 0 - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
}

Value bit_length(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "bit_length", 0, 0);
  return Value::integer(std::bit_width(size_of(self)));
}

Value bit_count(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "bit_count", 0, 0);
  return Value::integer(std::popcount(size_of(self)));
}

Value integer_ratio(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "as_integer_ratio", 0, 0);
  return Value::tuple({Value::integer(self.whole()), Value::integer(1)});
}

Value conjugate(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "conjugate", 0, 0);
  return self.is(Type::real) ? self : Value::integer(self.whole());
}

Value bytes(const Value&, Arguments&) {
  raise(Exception::unsupported, "methods of {} on bytes are not supported", "int");
}

Value is_integer(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "is_integer", 0, 0);
  const double number = self.number();
  return Value::boolean(std::isfinite(number) && std::trunc(number) == number);
}

Value real_ratio(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "as_integer_ratio", 0, 0);
  double number = self.number();
  if (std::isnan(number)) raise(Exception::value, "{}", "cannot convert NaN to integer ratio");
  if (std::isinf(number)) {
    raise(Exception::overflow, "{}", "cannot convert Infinity to integer ratio");
  }
  int64_t below = 1;
  while (std::trunc(number) != number) {
    number *= 2;
    if (below > (int64_t{1} << 61)) {
      raise(Exception::unsupported, "the ratio of {} needs more than 64 bits",
            float_repr(self.number()));
    }
    below *= 2;
  }
  return Value::tuple({Value::integer(truncated(number)), Value::integer(below)});
}

// "0x1.8000000000000p+1": always 13 digits.
Value hex(const Value& self, Arguments& arguments) {
  bind_positional(arguments, "hex", 0, 0);
  const double number = self.number();
  if (!std::isfinite(number)) return Value::string(float_repr(number));
  const std::string sign = std::signbit(number) ? "-" : "";
  if (number == 0) return Value::string(sign + "0x0.0p+0");
  const auto bits = std::bit_cast<uint64_t>(number);
  const auto exponent = static_cast<int>((bits >> 52) & 0x7ff);
  return Value::string(fmt::format("{}0x{}.{:013x}p{:+}", sign, exponent == 0 ? 0 : 1,
                                   bits & 0xfffffffffffffULL,
                                   exponent == 0 ? -1022 : exponent - 1023));
}

Value from_hex(const Value&, Arguments& arguments) {
  const Value value = bind_positional(arguments, "fromhex", 1, 1)[0];
  const std::string text(text_argument(value));
  char* end = nullptr;
  const bool has_prefix = text.find("0x") != std::string::npos;
  const std::string digits = has_prefix ? text : "0x" + text;
  const double number = std::strtod(digits.c_str(), &end);
  if (end != digits.c_str() + digits.size() || text.empty()) {
    raise(Exception::value, "{}", "invalid hexadecimal floating-point string");
  }
  return Value::real(number);
}

constexpr Method kIntegerMethods[] = {
    {"bit_length", bit_length}, {"bit_count", bit_count}, {"as_integer_ratio", integer_ratio},
    {"conjugate", conjugate},   {"to_bytes", bytes},      {"from_bytes", bytes},
};
constexpr Method kRealMethods[] = {
    {"is_integer", is_integer}, {"as_integer_ratio", real_ratio},
    {"conjugate", conjugate},   {"hex", hex},
    {"fromhex", from_hex},
};

}  // namespace

std::span<const Method> integer_methods() { return kIntegerMethods; }
std::span<const Method> real_methods() { return kRealMethods; }

}  // namespace lathe::templates

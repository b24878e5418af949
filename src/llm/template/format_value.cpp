// SPDX-License-Identifier: MIT
// Formats a value: [[fill]align][sign][z][#][0][width][grouping][.precision][type]
#include <cmath>

#include "llm/template/budget.h"
#include "llm/template/str_format.h"
#include "llm/template/text.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

struct Specification {
  char32_t fill = ' ';
  char align = '\0';
  char sign = '-';
  bool has_sign = false;
  bool is_alternate = false;
  bool no_negative_zero = false;
  bool has_zero = false;
  int64_t width = 0;
  char grouping = '\0';
  int64_t precision = -1;
  char kind = '\0';
};

[[noreturn]] void fail_value(std::string text) { raise_text(Exception::value, std::move(text)); }

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

int64_t read_number(std::string_view text, size_t& at) {
  int64_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > (int64_t{1} << 31)) fail_value("Too many decimal digits in format string");
  }
  return number;
}

Specification parse(std::string_view text, std::string_view type) {
  Specification out;
  size_t at = 0;
  size_t after_fill = 0;
  if (!text.empty()) next_character(text, after_fill);
  if (after_fill > 0 && after_fill < text.size() && is_align(text[after_fill])) {
    size_t begin = 0;
    out.fill = next_character(text, begin);
    out.align = text[after_fill];
    at = after_fill + 1;
  } else if (!text.empty() && is_align(text[0])) {
    out.align = text[at++];
  }
  const auto next_is = [&](char c) { return at < text.size() && text[at] == c; };
  if (next_is('+') || next_is('-') || next_is(' ')) {
    out.sign = text[at++];
    out.has_sign = true;
  }
  if (next_is('z')) {
    out.no_negative_zero = true;
    ++at;
  }
  if (next_is('#')) {
    out.is_alternate = true;
    ++at;
  }
  if (next_is('0')) {
    out.has_zero = true;
    if (out.align == '\0') {
      out.fill = '0';
      out.align = '=';
    }
    ++at;
  }
  out.width = read_number(text, at);
  if (next_is(',') || next_is('_')) {
    out.grouping = text[at++];
    if (next_is(',') || next_is('_')) {
      fail_value(text[at] == out.grouping
                     ? fmt::format("Cannot specify '{0}' with '{0}'.", out.grouping)
                     : "Cannot specify both ',' and '_'.");
    }
  }
  if (next_is('.')) {
    const size_t begin = ++at;
    out.precision = read_number(text, at);
    if (at == begin) fail_value("Format specifier missing precision");
  }
  if (at < text.size()) {
    const std::string_view rest = text.substr(at);
    size_t end = 0;
    next_character(rest, end);
    if (end < rest.size()) {
      fail_value(fmt::format("Invalid format specifier '{}' for object of type '{}'", text, type));
    }
    if (end > 1) {
      fail_value(fmt::format("Unknown format code '{}' for object of type '{}'", rest, type));
    }
    out.kind = text[at];
  }
  return out;
}

std::string padded(const Specification& how, std::string text, char otherwise) {
  const int64_t space = how.width - static_cast<int64_t>(count_characters(text));
  if (space <= 0) return text;
  foresee(static_cast<uint64_t>(space) * 4);
  step_text(static_cast<size_t>(space));
  const char align = how.align == '\0' ? otherwise : how.align;
  const int64_t before = align == '<' ? 0 : align == '^' ? space / 2 : space;
  std::string out;
  for (int64_t i = 0; i < before; ++i) append_character(out, how.fill);
  out += text;
  for (int64_t i = before; i < space; ++i) append_character(out, how.fill);
  return out;
}

std::string format_string(const Value& value, std::string_view specification) {
  const Specification how = parse(specification, "str");
  if (how.kind != '\0' && how.kind != 's') {
    fail_value(fmt::format("Unknown format code '{}' for object of type 'str'", how.kind));
  }
  if (how.has_sign) fail_value("Sign not allowed in string format specifier");
  if (how.no_negative_zero) {
    fail_value("Negative zero coercion (z) not allowed in string format specifier");
  }
  if (how.is_alternate) fail_value("Alternate form (#) not allowed in string format specifier");
  if (how.align == '=' && !how.has_zero) {
    fail_value("'=' alignment not allowed in string format specifier");
  }
  if (how.grouping != '\0') fail_value(fmt::format("Cannot specify '{}' with 's'.", how.grouping));
  std::string text(value.text());
  if (how.precision >= 0) {
    text.resize(byte_of_character(text, static_cast<size_t>(how.precision)));
  }
  Specification plain = how;
  if (plain.align == '=') plain.align = '<';
  return padded(plain, std::move(text), '<');
}

// Groups the digits; pads them with zeros to `width` if they fill the field.
std::string grouped(std::string digits, char grouping, size_t size, int64_t width) {
  const auto with_groups = [&](const std::string& plain) {
    std::string out;
    for (size_t i = 0; i < plain.size(); ++i) {
      if (i > 0 && (plain.size() - i) % size == 0) out += grouping;
      out += plain[i];
    }
    return out;
  };
  if (grouping == '\0') {
    const int64_t missing = width - static_cast<int64_t>(digits.size());
    if (missing > 0) digits.insert(0, static_cast<size_t>(missing), '0');
    return digits;
  }
  const auto wide = [&](size_t count) { return static_cast<int64_t>(count + (count - 1) / size); };
  size_t count = std::max<size_t>(digits.size(), 1);
  while (wide(count) < width) ++count;
  digits.insert(0, count - digits.size(), '0');
  return with_groups(digits);
}

// Joins and pads sign, prefix, digits and fraction.
std::string assembled(const Specification& how, bool is_negative, std::string_view prefix,
                      std::string digits, std::string_view rest, size_t group_size) {
  std::string head = is_negative ? "-" : how.sign == '-' ? "" : std::string(1, how.sign);
  head += prefix;
  foresee(static_cast<uint64_t>(how.width) * 4);
  step_text(static_cast<size_t>(how.width));
  const bool fills = how.align == '=' && how.fill == '0';
  const int64_t width = fills ? how.width - static_cast<int64_t>(head.size() + rest.size()) : 0;
  digits = grouped(std::move(digits), how.grouping, group_size, width);
  digits += rest;
  if (how.align != '=') return padded(how, head + digits, '>');
  const int64_t space = how.width - static_cast<int64_t>(head.size() + digits.size());
  for (int64_t i = 0; i < space; ++i) append_character(head, how.fill);
  return head + digits;
}

std::string format_real(const Specification& given, double number, bool is_real) {
  Specification how = given;
  char kind = how.kind;
  bool is_percent = false;
  if (kind == '%') {
    number *= 100;
    kind = 'f';
    is_percent = true;
  }
  if (kind == 'n') kind = 'g';
  std::string text;
  if (kind == '\0' && how.precision < 0) {
    text = float_repr(std::fabs(number));
  } else {
    const int64_t precision = how.precision < 0 ? 6 : how.precision;
    foresee(static_cast<uint64_t>(precision) + 400);
    step_text(static_cast<size_t>(precision));
    const bool is_general = kind == '\0';
    text = format_float(std::fabs(number), is_general ? 'g' : kind, static_cast<int>(precision),
                        how.is_alternate);
    // Without a type a float has a point or an exponent.
    const bool is_plain = text.find_first_not_of("0123456789") == std::string::npos;
    if (is_general && is_plain) {
      if (static_cast<int64_t>(text.size()) >= precision && precision > 0 && is_real) {
        text = format_float(std::fabs(number), 'e', static_cast<int>(precision) - 1);
        size_t e = text.find('e');
        while (e > 0 && text[e - 1] == '0' && text.find('.') < e) text.erase(--e, 1);
        if (text[e - 1] == '.') text.erase(e - 1, 1);
      } else {
        text += ".0";
      }
    }
  }
  bool is_negative = std::signbit(number) && !std::isnan(number);
  if (how.no_negative_zero && text.find_first_of("123456789in") == std::string::npos) {
    is_negative = false;
  }
  if (is_percent) text += '%';
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) how.grouping = '\0';
  return assembled(how, is_negative, "", text.substr(0, digits), text.substr(digits), 3);
}

std::string format_integer(const Value& value, std::string_view specification) {
  const Specification how = parse(specification, type_name(value));
  if (std::string_view("eEfFgG%").find(how.kind) != std::string_view::npos && how.kind != '\0') {
    return format_real(how, static_cast<double>(value.whole()), false);
  }
  if (std::string_view("bcdoxXn").find(how.kind) == std::string_view::npos && how.kind != '\0') {
    fail_value(fmt::format("Unknown format code '{}' for object of type '{}'", how.kind,
                           type_name(value)));
  }
  if (how.precision >= 0) fail_value("Precision not allowed in integer format specifier");
  if (how.no_negative_zero) {
    fail_value("Negative zero coercion (z) not allowed in format specifier with integer");
  }
  const int64_t whole = value.whole();
  if (how.kind == 'c') {
    if (how.has_sign) fail_value("Sign not allowed with integer format specifier 'c'");
    if (whole < 0 || whole > 0x10ffff) {
      raise(Exception::overflow, "%c arg not in range({})", "0x110000");
    }
    std::string text;
    append_character(text, static_cast<char32_t>(whole));
    return padded(how, std::move(text), '<');
  }
  const bool is_decimal = how.kind == '\0' || how.kind == 'd' || how.kind == 'n';
  if (how.grouping != '\0' && (how.kind == 'n' || (how.grouping == ',' && !is_decimal))) {
    fail_value(fmt::format("Cannot specify '{}' with '{}'.", how.grouping, how.kind));
  }
  const uint64_t size = whole < 0 ? 0 - static_cast<uint64_t>(whole) : static_cast<uint64_t>(whole);
  const std::string digits = how.kind == 'b'   ? fmt::format("{:b}", size)
                             : how.kind == 'o' ? fmt::format("{:o}", size)
                             : how.kind == 'x' ? fmt::format("{:x}", size)
                             : how.kind == 'X' ? fmt::format("{:X}", size)
                                               : fmt::format("{}", size);
  const std::string prefix = how.is_alternate && !is_decimal ? std::string("0") + how.kind : "";
  return assembled(how, whole < 0, prefix, digits, "", is_decimal ? 3 : 4);
}

}  // namespace

std::string format_value(const Value& value, std::string_view specification) {
  if (specification.empty()) return str(value);
  if (value.is_string()) return format_string(value, specification);
  if (value.is_integral()) return format_integer(value, specification);
  if (value.is(Type::real)) {
    const Specification how = parse(specification, "float");
    if (std::string_view("eEfFgGn%").find(how.kind) == std::string_view::npos && how.kind != '\0') {
      fail_value(fmt::format("Unknown format code '{}' for object of type 'float'", how.kind));
    }
    if (how.grouping != '\0' && how.kind == 'n') {
      fail_value(fmt::format("Cannot specify '{}' with 'n'.", how.grouping));
    }
    return format_real(how, value.number(), true);
  }
  raise(Exception::type, "unsupported format string passed to {}.__format__", type_name(value));
}

}  // namespace lathe::templates

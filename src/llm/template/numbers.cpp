// SPDX-License-Identifier: MIT
// Converts numbers from and to text.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "llm/template/numbers.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

std::string special(double number, bool is_upper) {
  if (std::isnan(number)) return is_upper ? "NAN" : "nan";
  const std::string text = is_upper ? "INF" : "inf";
  return number < 0 ? "-" + text : text;
}

// Strips spaces and converts digits of any script to ASCII; nullopt for a character that is not a
// digit, letter or sign.
std::string plain(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (const int digit = decimal_digit(c); digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else {
      out += is_space(c) ? ' ' : '?';
    }
  }
  const auto is_blank = [](char c) { return is_space(static_cast<unsigned char>(c)); };
  size_t begin = 0;
  size_t end = out.size();
  while (begin < end && is_blank(out[begin])) ++begin;
  while (end > begin && is_blank(out[end - 1])) --end;
  return out.substr(begin, end - begin);
}

// Removes underscores, which are valid only between digits.
bool remove_underscores(std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return false;
    }
  }
  text = std::move(out);
  return true;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// The prefix of a base: 2 for 0b, 8 for 0o, 16 for 0x, else 0.
int base_of_prefix(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  switch (digits[1] | 0x20) {
    case 'b':
      return 2;
    case 'o':
      return 8;
    case 'x':
      return 16;
    default:
      return 0;
  }
}

}  // namespace

std::string float_repr(double number) {
  if (!std::isfinite(number)) return special(number, false);
  char buffer[40];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(result.ptr - buffer));
  const size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed);
  std::string text(buffer, static_cast<size_t>(fixed.ptr - buffer));
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string format_float(double number, char kind, int precision, bool alternate) {
  if (!std::isfinite(number)) return special(number, kind < 'a');
  const std::string format = fmt::format("%{}.*{}", alternate ? "#" : "", kind);
  char small[64];
  // The digits of the C library and of Python are exact.
  const int size = std::snprintf(small, sizeof small, format.c_str(), precision, number);
  if (size < static_cast<int>(sizeof small)) return std::string(small, static_cast<size_t>(size));
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), precision, number);
  text.pop_back();
  return text;
}

std::optional<double> parse_float(std::string_view text) {
  std::string digits = plain(text);
  if (!remove_underscores(digits) || digits.empty()) return {};
  std::string_view rest = digits;
  const bool is_negative = rest.front() == '-';
  if (rest.front() == '-' || rest.front() == '+') rest.remove_prefix(1);
  std::string lower;
  for (const char c : rest) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  const double sign = is_negative ? -1.0 : 1.0;
  if (lower == "inf" || lower == "infinity") {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (lower.empty() || lower.find_first_not_of("0123456789.e+-") != std::string::npos) return {};
  if (lower.front() == '+' || lower.front() == '-') return {};
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  if (end != lower.c_str() + lower.size()) return {};
  return sign * value;
}

std::optional<int64_t> parse_integer(std::string_view text, int base) {
  std::string digits = plain(text);
  bool is_negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    is_negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  const int prefixed = base_of_prefix(digits);
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    base = prefixed;
    digits.erase(0, 2);
    if (!digits.empty() && digits[0] == '_') digits.erase(0, 1);
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of("0_") != std::string::npos) {
      return {};
    }
  }
  if (!remove_underscores(digits) || digits.empty()) return {};
  uint64_t value = 0;
  bool is_big = false;
  for (const char c : digits) {
    const int digit = digit_value(c);
    if (digit >= base) return {};
    is_big = is_big || __builtin_mul_overflow(value, static_cast<uint64_t>(base), &value) ||
             __builtin_add_overflow(value, static_cast<uint64_t>(digit), &value);
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  if (is_big || value > kMost + (is_negative ? 1 : 0)) {
    raise(Exception::unsupported, "the integer {} needs more than 64 bits", digits.substr(0, 60));
  }
  return is_negative ? static_cast<int64_t>(~value + 1) : static_cast<int64_t>(value);
}

int64_t truncated(double number) {
  const double whole = std::trunc(number);
  if (!(whole >= -0x1p63 && whole < 0x1p63)) {
    raise(Exception::unsupported, "the integer {} needs more than 64 bits", float_repr(whole));
  }
  return static_cast<int64_t>(whole);
}

namespace {

// The exact decimal digits of a number, rounded half to even.
double rounded_to_tens(double number, int64_t places) {
  std::string digits = format_float(std::fabs(number), 'f', 1074);
  const size_t point = digits.find('.');
  if (static_cast<size_t>(places) > point) return std::copysign(0.0, number);
  const size_t cut = point - static_cast<size_t>(places);
  const std::string rest = digits.substr(cut, point - cut) + digits.substr(point + 1);
  std::string kept = "0" + digits.substr(0, cut);
  const bool is_half = rest[0] == '5' && rest.find_first_not_of('0', 1) == std::string::npos;
  const bool goes_up = is_half ? (kept.back() - '0') % 2 == 1 : rest[0] >= '5';
  for (size_t i = kept.size(); goes_up && i-- > 0;) {
    if (kept[i] != '9') {
      ++kept[i];
      break;
    }
    kept[i] = '0';
  }
  kept.append(static_cast<size_t>(places), '0');
  return std::copysign(std::strtod(kept.c_str(), nullptr), number);
}

}  // namespace

Value rounded(const Value& value, int64_t digits) {
  if (value.is_integral()) {
    const int64_t whole = value.whole();
    if (digits >= 0) return Value::integer(whole);
    if (digits < -18) return Value::integer(0);
    int64_t unit = 1;
    for (int64_t i = digits; i < 0; ++i) unit *= 10;
    const int64_t rest = ((whole % unit) + unit) % unit;
    int64_t low = 0;
    if (__builtin_sub_overflow(whole, rest, &low))
      raise(Exception::unsupported, "{} cannot be rounded in 64 bits", whole);
    const bool goes_up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
    if (goes_up && __builtin_add_overflow(low, unit, &low)) {
      raise(Exception::unsupported, "{} cannot be rounded in 64 bits", whole);
    }
    return Value::integer(low);
  }
  const double number = value.number();
  if (!std::isfinite(number) || digits > 323) return value;
  if (digits < -308) return Value::real(std::copysign(0.0, number));
  if (digits < 0) return Value::real(rounded_to_tens(number, -digits));
  const std::string text = format_float(number, 'f', static_cast<int>(digits));
  return Value::real(std::strtod(text.c_str(), nullptr));
}

}  // namespace lathe::templates

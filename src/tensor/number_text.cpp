// SPDX-License-Identifier: MIT
#include "tensor/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lathe {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

[[noreturn]] void fail_to_read(std::string_view text) {
  fail(ErrorKind::invalid_argument,
       "'{}' is not a number, expected for example -1.5, 1e-5, INF or NaN", escape(text));
}

// True if out-of-range digits are too large, false if too small.
bool is_beyond_one(std::string_view digits) {
  const size_t e = std::min(digits.find_first_of("eE"), digits.size());
  const std::string_view mantissa = digits.substr(0, e);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = std::min(mantissa.find_first_of("123456789"), mantissa.size());
  // Place of the leading digit: 1 for 1.5, 0 for 0.15, −1 for 0.015.
  int64_t place = static_cast<int64_t>(point) - static_cast<int64_t>(first) + (first > point);
  std::string_view exponent = digits.substr(std::min(e + 1, digits.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int64_t shift = 0;
  const auto end = exponent.data() + exponent.size();
  if (std::from_chars(exponent.data(), end, shift).ec == std::errc::result_out_of_range) {
    return !exponent.starts_with('-');
  }
  return shift > 0 || (shift == 0 && place > 0) || shift + place > 0;
}

template <class Float>
Float read_float(std::string_view text) {
  std::string_view digits = trim(text);
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
  Float value = 0;
  if (equals_ignoring_case(digits, "inf") || equals_ignoring_case(digits, "infinity")) {
    value = std::numeric_limits<Float>::infinity();
  } else if (equals_ignoring_case(digits, "nan")) {
    value = std::numeric_limits<Float>::quiet_NaN();
  } else {
    const char* end = digits.data() + digits.size();
    // from_chars accepts a second sign and "nan(…)".
    const bool starts_well =
        !digits.empty() && ((digits[0] >= '0' && digits[0] <= '9') || digits[0] == '.');
    if (!starts_well) fail_to_read(text);
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (stop != end || error == std::errc::invalid_argument) fail_to_read(text);
    if (error == std::errc::result_out_of_range) {
      value = is_beyond_one(digits) ? std::numeric_limits<Float>::infinity() : Float{0};
    }
  }
  return is_negative ? -value : value;
}

template <class Float>
std::string print_float(Float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  return fmt::format("{}", value);
}

}  // namespace

std::string number_to_text(double value) { return print_float(value); }

std::string number_to_text(float value) { return print_float(value); }

double text_to_double(std::string_view text) { return read_float<double>(text); }

float text_to_float(std::string_view text) { return read_float<float>(text); }

uint64_t text_to_int(std::string_view text) {
  std::string_view digits = trim(text);
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
  uint64_t magnitude = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, magnitude);
  bool fits = error != std::errc::result_out_of_range;
  if (stop != end || error == std::errc::invalid_argument) {
    const double value = text_to_double(text);
    fits = std::abs(value) < 0x1p64;
    magnitude = fits ? static_cast<uint64_t>(std::abs(value)) : 0;
  }
  check(fits && (!is_negative || magnitude <= uint64_t{1} << 63), ErrorKind::invalid_argument,
        "'{}' does not fit in a 64-bit integer", escape(text));
  return is_negative ? 0 - magnitude : magnitude;
}

}  // namespace lathe

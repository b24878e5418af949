// SPDX-License-Identifier: MIT
#include "ir/attribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lathe {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  // A decimal point distinguishes a number from an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class T, class F>
std::string list_text(const std::vector<T>& values, F&& item) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i > 0 ? ", " : "") + item(values[i]);
  return out + "]";
}

}  // namespace

Attribute::Attribute() = default;
Attribute::Attribute(const Attribute& other) = default;
Attribute::Attribute(Attribute&& other) noexcept = default;
Attribute& Attribute::operator=(const Attribute& other) = default;
Attribute& Attribute::operator=(Attribute&& other) noexcept = default;
Attribute::~Attribute() = default;

std::string_view to_string(AttributeKind kind) {
  static constexpr std::array<std::string_view, 10> kNames{
      "an integer",        "a number",
      "true or false",     "a string",
      "an element type",   "a list of integers",
      "a list of numbers", "a list of strings",
      "a list of dims",    "a type"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_string(const Attribute& value) {
  const auto integer = [](int64_t v) { return fmt::format("{}", v); };
  switch (kind_of(value)) {
    case AttributeKind::integer:
      return integer(std::get<int64_t>(value));
    case AttributeKind::number:
      return number_text(std::get<double>(value));
    case AttributeKind::boolean:
      return std::get<bool>(value) ? "true" : "false";
    case AttributeKind::text:
      return quoted(std::get<std::string>(value));
    case AttributeKind::element_type:
      return std::string(info(std::get<ElementType>(value)).name);
    case AttributeKind::integers:
      return list_text(std::get<Integers>(value), integer);
    case AttributeKind::numbers:
      return list_text(std::get<Numbers>(value), number_text);
    case AttributeKind::texts:
      return list_text(std::get<Texts>(value), quoted);
    case AttributeKind::dims: {
      const auto& dims = std::get<std::vector<Dim>>(value);
      std::string out = list_text(dims, [](const Dim& dim) { return dim.to_string(); });
      out.front() = '(';
      out.back() = ')';
      return "dims" + out;
    }
    case AttributeKind::type:
      return fmt::format("type({})", std::get<Type>(value).to_string());
  }
  return "";
}

const Attribute* find_attribute(const Attributes& attributes, std::string_view name) {
  const auto at = std::lower_bound(attributes.begin(), attributes.end(), name,
                                   [](const auto& a, std::string_view n) { return a.first < n; });
  return at != attributes.end() && at->first == name ? &at->second : nullptr;
}

}  // namespace lathe

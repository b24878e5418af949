// SPDX-License-Identifier: MIT
#include "ir/literal_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/quote.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

uint64_t bits_at(const void* data, int64_t index, int bits) {
  uint64_t out = 0;
  const auto bytes = static_cast<size_t>(bits / 8);
  std::memcpy(&out, static_cast<const char*>(data) + static_cast<size_t>(index) * bytes, bytes);
  return out;
}

// Infinity stays infinity in types that have one.
constexpr ConvertOptions kExact{.saturate = false};

// Bits of `value` stored in this type.
uint64_t stored_bits(ElementType type, double value) {
  uint64_t out = 0;
  convert(type, &out, ElementType::f64, &value, 1, kExact);
  return out;
}

std::string float_text(ElementType type, double value, uint64_t bits) {
  if (std::isnan(value)) {
    const bool is_default = bits == stored_bits(type, std::numeric_limits<double>::quiet_NaN());
    return is_default ? "nan" : fmt::format("nan({:#x})", bits);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (type == ElementType::f64) return fmt::format("{}", value);
  if (type == ElementType::f32) return fmt::format("{}", static_cast<float>(value));
  for (int digits = 1;; ++digits) {
    const std::string text = fmt::format("{:.{}g}", value, digits);
    double read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    if (digits < 17 && stored_bits(type, read) != bits) continue;
    const std::string exact = fmt::format("{}", value);
    return exact.size() <= text.size() ? exact : text;
  }
}

void print_floats(const Tensor& dense, std::string& out) {
  const int bits = info(dense.type()).bits;
  std::vector<double> values(static_cast<size_t>(dense.count()));
  convert(ElementType::f64, values.data(), dense.type(), dense.data(), dense.count());
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    const uint64_t stored = bits >= 8 ? bits_at(dense.data(), static_cast<int64_t>(i), bits)
                                      : stored_bits(dense.type(), values[i]);
    out += float_text(dense.type(), values[i], stored);
  }
}

template <class T>
void print_integers(const Tensor& dense, std::string& out) {
  constexpr ElementType wide = std::is_signed_v<T> ? ElementType::i64 : ElementType::u64;
  std::vector<T> values(static_cast<size_t>(dense.count()));
  convert(wide, values.data(), dense.type(), dense.data(), dense.count());
  for (size_t i = 0; i < values.size(); ++i)
    out += fmt::format("{}{}", i > 0 ? ", " : "", values[i]);
}

void print_complex(const Tensor& dense, std::string& out) {
  const ElementType part = dense.type() == ElementType::c64 ? ElementType::f32 : ElementType::f64;
  const Tensor parts(part, {dense.count(), 2}, {2, 1}, dense.data(), dense.owner());
  const auto text = [&](int64_t i) {
    const double value =
        part == ElementType::f32 ? double{parts.as<float>()[i]} : parts.as<double>()[i];
    return float_text(part, value, bits_at(parts.data(), i, info(part).bits));
  };
  for (int64_t i = 0; i < dense.count(); ++i) {
    out += fmt::format("{}({}, {})", i > 0 ? ", " : "", text(2 * i), text(2 * i + 1));
  }
}

// Parses one element as a number of type T; error at the token.
template <class T>
T parse_number(const Lexer& lexer, const Token& token, ElementType type) {
  T value{};
  const char* end = token.text.data() + token.text.size();
  const auto [rest, status] = std::from_chars(token.text.data(), end, value);
  if (status != std::errc() || rest != end) {
    lexer.fail_at(token.offset,
                  fmt::format("'{}' is not a valid {}", escape(token.text, 60), to_string(type)));
  }
  return value;
}

void* element_at(const Tensor& tensor, int64_t index) {
  return tensor.as<char>() + index * (info(tensor.type()).bits / 8);
}

// Parses a NaN by its bits; error if the element type is too narrow for them.
void parse_nan_bits(Lexer& lexer, ElementType type, void* out) {
  const Token token = lexer.expect(TokenKind::number, "the bits of a NaN");
  uint64_t bits = 0;
  const char* begin = token.text.data() + std::min<size_t>(2, token.text.size());
  const char* end = token.text.data() + token.text.size();
  const auto [rest, status] = std::from_chars(begin, end, bits, 16);
  const int width = info(type).bits;
  double value = 0;
  if (status == std::errc() && (width == 64 || bits >> width == 0)) {
    convert(ElementType::f64, &value, type, &bits, 1);
  }
  if (!token.text.starts_with("0x") || rest != end || !std::isnan(value)) {
    lexer.fail_at(token.offset, fmt::format("'{}' are not the bits of a NaN of type {}",
                                            escape(token.text, 40), to_string(type)));
  }
  std::memcpy(out, &bits, static_cast<size_t>(width / 8));
  lexer.expect(")", "after the bits of a NaN");
}

// Parses into the float of 8 or more bits at `out`.
void parse_float(Lexer& lexer, ElementType type, void* out) {
  if (lexer.peek().is("nan") || lexer.peek().is("inf")) {
    const bool is_nan = lexer.take().text == "nan";
    if (is_nan && lexer.accept("(")) return parse_nan_bits(lexer, type, out);
    const double value =
        is_nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return convert(type, out, ElementType::f64, &value, 1, kExact);
  }
  const Token token =
      lexer.expect(TokenKind::number, fmt::format("an element of {}", to_string(type)));
  if (type == ElementType::f32) {
    // Parsed as float: rounding twice through double could miss the nearest value.
    const auto value = parse_number<float>(lexer, token, type);
    std::memcpy(out, &value, sizeof(value));
  } else {
    const auto value = parse_number<double>(lexer, token, type);
    convert(type, out, ElementType::f64, &value, 1, kExact);
    if (std::isfinite(value) && !std::isfinite(load_double(type, out, 0))) {
      lexer.fail_at(token.offset, fmt::format("{} is out of range for {}", escape(token.text, 60),
                                              to_string(type)));
    }
  }
}

void parse_packed_floats(Lexer& lexer, Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) lexer.expect(",", "between elements");
    const Token token = lexer.expect(TokenKind::number, "an element");
    values[i] = parse_number<double>(lexer, token, tensor.type());
  }
  convert(tensor.type(), tensor.data(), ElementType::f64, values.data(), tensor.count());
}

// T is int64_t or uint64_t: wide enough for every integer type.
template <class T>
void parse_integers(Lexer& lexer, Tensor& tensor) {
  const int bits = info(tensor.type()).bits;
  const T most = std::numeric_limits<T>::max() >> (64 - bits);
  const T least = std::is_signed_v<T> ? static_cast<T>(-most - 1) : T{0};
  std::vector<T> values(static_cast<size_t>(tensor.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) lexer.expect(",", "between elements");
    const Token token = lexer.expect(TokenKind::number, "an integer");
    values[i] = parse_number<T>(lexer, token, tensor.type());
    if (values[i] < least || values[i] > most) {
      lexer.fail_at(token.offset, fmt::format("{} is out of range for {} ({} to {})", values[i],
                                              to_string(tensor.type()), least, most));
    }
  }
  constexpr ElementType from = std::is_signed_v<T> ? ElementType::i64 : ElementType::u64;
  convert(tensor.type(), tensor.data(), from, values.data(), tensor.count());
}

void parse_one(Lexer& lexer, Tensor& tensor, int64_t index) {
  switch (info(tensor.type()).cls) {
    case ElementClass::boolean: {
      const Token token = lexer.expect(TokenKind::word, "true or false");
      if (!token.is("true") && !token.is("false")) {
        lexer.fail_at(token.offset,
                      fmt::format("expected true or false, found '{}'", escape(token.text, 60)));
      }
      tensor.as<bool>()[index] = token.is("true");
      return;
    }
    case ElementClass::complex: {
      const bool is_wide = tensor.type() == ElementType::c128;
      const ElementType part = is_wide ? ElementType::f64 : ElementType::f32;
      lexer.expect("(", "before a complex number");
      parse_float(lexer, part, element_at(tensor, index));
      lexer.expect(",", "between real and imaginary part");
      parse_float(lexer, part, tensor.as<char>() + index * (is_wide ? 16 : 8) + (is_wide ? 8 : 4));
      return lexer.expect(")", "after a complex number");
    }
    case ElementClass::string:
      tensor.as<std::string>()[index] = lexer.name_of(lexer.expect(TokenKind::string, "a string"));
      return;
    default:
      return parse_float(lexer, tensor.type(), element_at(tensor, index));
  }
}

}  // namespace

std::string elements_text(const Tensor& tensor) {
  const Tensor dense = tensor.dense();
  std::string out;
  switch (info(dense.type()).cls) {
    case ElementClass::floating:
      print_floats(dense, out);
      break;
    case ElementClass::complex:
      print_complex(dense, out);
      break;
    case ElementClass::boolean:
      for (int64_t i = 0; i < dense.count(); ++i) {
        out += i > 0 ? ", " : "";
        out += dense.as<bool>()[i] ? "true" : "false";
      }
      break;
    case ElementClass::string:
      for (int64_t i = 0; i < dense.count(); ++i) {
        out += (i > 0 ? ", " : "") + quote(dense.as<std::string>()[i]);
      }
      break;
    case ElementClass::signed_int:
      print_integers<int64_t>(dense, out);
      break;
    case ElementClass::unsigned_int:
      print_integers<uint64_t>(dense, out);
      break;
  }
  return out;
}

Tensor parse_elements(Lexer& lexer, ElementType type, const Dims& dims) {
  const int64_t count = element_count(dims);
  // Each element takes at least one character and a separator: the text's size bounds the memory.
  if (count > 0 && static_cast<uint64_t>(count - 1) > lexer.remaining() / 2) {
    lexer.fail_at(lexer.position(),
                  fmt::format("{} elements are expected, but only {} bytes of text "
                              "follow",
                              count, lexer.remaining()));
  }
  Tensor tensor(type, dims);
  if (is_integer(type)) {
    info(type).cls == ElementClass::signed_int ? parse_integers<int64_t>(lexer, tensor)
                                               : parse_integers<uint64_t>(lexer, tensor);
  } else if (is_packed(type)) {
    parse_packed_floats(lexer, tensor);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) lexer.expect(",", "between elements");
      parse_one(lexer, tensor, i);
    }
  }
  return tensor;
}

}  // namespace lathe

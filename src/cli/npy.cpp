// SPDX-License-Identifier: MIT
#include "cli/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "cli/content.h"
#include "tensor/convert.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = size_t{1} << 20;

struct Header {
  std::string descr;
  bool fortran_order = false;
  Dims dims;
  size_t data_offset = 0;
};

// Parses the header: a Python dict of three keys in any order.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  Header read() {
    Header header;
    int keys = 0;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        if (peek() == '[') fail_with("its elements are records, expected numbers, bool or strings");
        header.descr = quoted();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else if (key == "shape") {
        header.dims = shape();
      } else {
        fail_with("its header has an unknown key");
      }
      ++keys;
      if (!take(',') && peek() != '}') fail_with("its header is truncated or malformed");
    }
    if (keys != 3) fail_with("its header lacks one of descr, fortran_order, shape");
    return header;
  }

 private:
  [[noreturn]] void fail_with(std::string_view why) const {
    fail(ErrorKind::invalid_argument, "'{}' is not a valid .npy file: {} (byte {} of '{}')",
         escape(origin_), why, at_, escape(text_, 120));
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail_with(fmt::format("its header is malformed, expected '{}'", c));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_with("its header is malformed, expected a string");
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail_with("its header is truncated");
    const std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail_with("its header is malformed, expected True or False");
  }
  Dims shape() {
    Dims dims;
    expect('(');
    while (!take(')')) {
      peek();
      int64_t extent = 0;
      const auto [end, problem] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (problem != std::errc() || extent < 0) fail_with("its shape is malformed");
      at_ = static_cast<size_t>(end - text_.data());
      dims.push_back(extent);
      if (dims.size() > static_cast<size_t>(kMaxRank)) fail_with("its rank is above 16");
      if (!take(',') && peek() != ')') fail_with("its shape is malformed");
    }
    return dims;
  }

  std::string_view text_;
  std::string_view origin_;
  size_t at_ = 0;
};

Header read_header(std::string_view bytes, std::string_view origin) {
  constexpr size_t kFixed = 8;
  check(looks_like_npy(bytes), ErrorKind::invalid_argument, "'{}' is not a valid .npy file: {}",
        escape(origin), describe_content(bytes));
  check(bytes.size() >= kFixed + 4, ErrorKind::invalid_argument,
        "'{}' is not a valid .npy file: {} bytes are too few for its header", escape(origin),
        bytes.size());
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const size_t width = byte(6) == 1 ? 2 : 4;
  size_t length = byte(8) | byte(9) << 8;
  if (width == 4) length |= byte(10) << 16 | byte(11) << 24;
  const size_t begin = kFixed + width;
  check(byte(6) >= 1 && byte(6) <= 3 && length <= kMaxHeader && begin + length <= bytes.size(),
        ErrorKind::invalid_argument,
        "'{}' is not a valid .npy file: version {}, header of {} bytes in a file of {}",
        escape(origin), byte(6), length, bytes.size());
  Header header = HeaderReader(bytes.substr(begin, length), origin).read();
  header.data_offset = begin + length;
  return header;
}

struct Dtype {
  char kind = 0;  // numpy's: f, i, u, b, c, U, S, V
  int64_t size = 0;
  bool swapped = false;
};

Dtype read_dtype(const std::string& descr, std::string_view origin) {
  Dtype dtype;
  const size_t at = !descr.empty() && std::strchr("<>|=", descr[0]) != nullptr ? 1 : 0;
  bool ok = descr.size() > at + 1;
  if (ok) {
    dtype.kind = descr[at];
    const char* end = descr.data() + descr.size();
    const auto [stop, problem] = std::from_chars(descr.data() + at + 1, end, dtype.size);
    ok = problem == std::errc() && stop == end && dtype.size >= 0 && dtype.size <= (1 << 24);
    dtype.swapped = descr[0] == '>';
  }
  check(ok && dtype.kind != 'O', ErrorKind::invalid_argument,
        "'{}' has elements of dtype '{}', expected numbers, bool or strings", escape(origin),
        escape(descr));
  return dtype;
}

std::string numpy_kind(ElementType type) {
  const ElementTypeInfo& known = info(type);
  const int bytes = std::max(known.bits, 8) / 8;
  switch (known.cls) {
    case ElementClass::floating:
      return type == ElementType::f16 || type == ElementType::f32 || type == ElementType::f64
                 ? fmt::format("f{}", bytes)
                 : fmt::format("V{}", bytes);
    case ElementClass::signed_int:
      return fmt::format("i{}", bytes);
    case ElementClass::unsigned_int:
      return fmt::format("u{}", bytes);
    case ElementClass::boolean:
      return "b1";
    case ElementClass::complex:
      return fmt::format("c{}", bytes);
    case ElementClass::string:
      return "U";
  }
  return "";
}

// The element type of an array: `expected` if it fits, else the first type that does.
std::optional<ElementType> element_type_of(const Dtype& dtype,
                                           std::optional<ElementType> expected) {
  if (dtype.kind == 'U' || dtype.kind == 'S') return ElementType::string;
  const std::string kind = fmt::format("{}{}", dtype.kind, dtype.size);
  if (expected && numpy_kind(*expected) == kind) return expected;
  // Raw bytes may hold any type of their width.
  if (expected && dtype.kind == 'V' && dtype.size == std::max(info(*expected).bits, 8) / 8) {
    return expected;
  }
  for (const ElementTypeInfo& candidate : element_types()) {
    if (numpy_kind(candidate.type) == kind && !is_packed(candidate.type)) return candidate.type;
  }
  return std::nullopt;
}

void swap_bytes(std::byte* data, int64_t count, size_t width) {
  for (int64_t i = 0; i < count; ++i)
    std::reverse(data + i * static_cast<int64_t>(width),
                 data + (i + 1) * static_cast<int64_t>(width));
}

void append_utf8(std::string& out, uint32_t point) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
  } else {
    add(0xF0 | (point >> 18 & 7));
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
  }
  add(0x80 | (point & 0x3F));
}

Tensor read_strings(std::string_view data, const Dtype& dtype, const Dims& dims) {
  Tensor out(ElementType::string, dims);
  const size_t unit = dtype.kind == 'U' ? 4 : 1;
  const size_t width = static_cast<size_t>(dtype.size) * unit;
  size_t at = 0;
  for (std::string& text : out.elements<std::string>()) {
    for (size_t i = 0; i < width; i += unit) {
      uint32_t point = static_cast<unsigned char>(data[at + i]);
      if (unit == 4) {
        std::memcpy(&point, data.data() + at + i, 4);
        if (dtype.swapped) point = __builtin_bswap32(point);
      }
      if (point == 0) break;
      if (unit == 4) {
        append_utf8(text, point);
      } else {
        text += static_cast<char>(point);
      }
    }
    at += width;
  }
  return out;
}

// Packs one byte per element.
Tensor pack(std::string_view data, ElementType type, const Dims& dims) {
  Tensor out(type, dims);
  const int bits = info(type).bits;
  const int per_byte = 8 / bits;
  auto* bytes = static_cast<unsigned char*>(out.data());
  for (size_t i = 0; i < data.size(); ++i) {
    const unsigned value = static_cast<unsigned char>(data[i]) & ((1u << bits) - 1);
    const size_t place = i / static_cast<size_t>(per_byte);
    bytes[place] = static_cast<unsigned char>(
        bytes[place] | value << (static_cast<int>(i % static_cast<size_t>(per_byte)) * bits));
  }
  return out;
}

Tensor as_c_order(const Tensor& read, const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return Tensor(read.type(), dims, strides, read.data(), read.owner()).dense();
}

Tensor read_numbers(std::string_view data, const Dtype& dtype, ElementType type, const Dims& dims,
                    const std::shared_ptr<const void>& owner) {
  if (is_packed(type)) return pack(data, type, dims);
  void* memory = const_cast<char*>(data.data());  // safe: nothing writes to inputs
  const bool is_aligned = reinterpret_cast<uintptr_t>(memory) % alignment_of(type) == 0;
  if (owner != nullptr && is_aligned && !dtype.swapped && !data.empty()) {
    return Tensor(type, dims, Tensor::dense_strides(dims), memory,
                  std::const_pointer_cast<void>(owner));
  }
  Tensor out(type, dims);
  if (!data.empty()) std::memcpy(out.data(), data.data(), data.size());
  if (dtype.swapped) {
    const size_t width = alignment_of(type);  // of one part of a complex number
    swap_bytes(static_cast<std::byte*>(out.data()), static_cast<int64_t>(data.size() / width),
               width);
  }
  return out;
}

}  // namespace

bool looks_like_npy(std::string_view bytes) { return bytes.starts_with(kMagic); }

namespace {

// Checks the header against the size of the data before any memory is allocated for it.
void check_data_size(const Header& header, const Dtype& dtype, std::string_view origin,
                     size_t size) {
  size_t expected = static_cast<size_t>(dtype.size) * (dtype.kind == 'U' ? 4 : 1);
  bool fits = true;
  for (const int64_t extent : header.dims) {
    fits = fits && !__builtin_mul_overflow(expected, static_cast<size_t>(extent), &expected);
  }
  check(fits && expected == size && (dtype.size > 0 || size == 0), ErrorKind::invalid_argument,
        "'{}' has {} bytes of elements, but {} of dtype '{}' requires {}", escape(origin), size,
        fmt::format("[{}]", fmt::join(header.dims, ", ")), escape(header.descr),
        fits ? fmt::format("{}", expected) : "more than 2^64");
}

}  // namespace

void check_npy_size(std::string_view begin, std::string_view origin, size_t size) {
  const Header header = read_header(begin, origin);
  check_data_size(header, read_dtype(header.descr, origin), origin, size - header.data_offset);
}

Tensor read_npy(std::string_view bytes, std::string_view origin,
                std::optional<ElementType> expected, const std::shared_ptr<const void>& owner) {
  const Header header = read_header(bytes, origin);
  const Dtype dtype = read_dtype(header.descr, origin);
  const std::optional<ElementType> type = element_type_of(dtype, expected);
  check(type.has_value(), ErrorKind::invalid_argument,
        "'{}' has elements of dtype '{}', which has no element type", escape(origin),
        escape(header.descr));
  const std::string_view data = bytes.substr(header.data_offset);
  check_data_size(header, dtype, origin, data.size());
  Dims dims = header.dims;
  if (header.fortran_order) std::reverse(dims.begin(), dims.end());
  if (*type == ElementType::string) {
    check(dtype.size > 0 || element_count(dims) <= 1 << 20, ErrorKind::invalid_argument,
          "'{}' declares {} empty strings", escape(origin), element_count(dims));
  }
  const Tensor read = *type == ElementType::string ? read_strings(data, dtype, dims)
                                                   : read_numbers(data, dtype, *type, dims, owner);
  if (!header.fortran_order || header.dims.size() < 2) return read;
  check(!is_packed(*type), ErrorKind::invalid_argument,
        "'{}' stores {} in Fortran order, which requires at least 8 bits per element",
        escape(origin), to_string(*type));
  return as_c_order(read, header.dims);
}

namespace {

std::u32string decode(const std::string& text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    char32_t point = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      point = point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    }
    out += point;
    i += length;
  }
  return out;
}

std::string header_text(const std::string& descr, const Dims& dims) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 descr, fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  constexpr size_t kPrefix = 10;
  constexpr size_t kAlign = 64;
  text.append(kAlign - 1 - (kPrefix + text.size()) % kAlign, ' ');
  text += '\n';
  std::string out(kMagic);
  out += std::string{'\x01', '\x00', static_cast<char>(text.size() & 0xFF),
                     static_cast<char>(text.size() >> 8)};
  return out + text;
}

}  // namespace

void write_npy(const Tensor& tensor, const std::function<void(std::string_view)>& write) {
  const Tensor dense = tensor.dense();
  const auto count = static_cast<size_t>(dense.count());
  if (dense.type() == ElementType::string) {
    std::vector<std::u32string> strings;
    size_t longest = 1;
    for (const std::string& text : dense.elements<std::string>()) {
      longest = std::max(longest, strings.emplace_back(decode(text)).size());
    }
    write(header_text(fmt::format("<U{}", longest), dense.dims()));
    for (std::u32string& text : strings) {
      text.resize(longest);
      write({reinterpret_cast<const char*>(text.data()), longest * 4});
    }
    return;
  }
  const bool one_byte = std::max(info(dense.type()).bits, 8) == 8;
  write(header_text((one_byte ? "|" : "<") + numpy_kind(dense.type()), dense.dims()));
  if (!is_packed(dense.type())) {
    write({static_cast<const char*>(dense.data()), static_cast<size_t>(dense.byte_size())});
    return;
  }
  std::string bytes(count, '\0');
  const int bits = info(dense.type()).bits;
  const bool is_signed = info(dense.type()).cls == ElementClass::signed_int;
  for (size_t i = 0; i < count; ++i) {
    const auto packed =
        static_cast<const unsigned char*>(dense.data())[i * static_cast<size_t>(bits) / 8];
    unsigned value = packed >> (i * static_cast<size_t>(bits) % 8) & ((1u << bits) - 1);
    if (is_signed && value >> (bits - 1) != 0) value |= ~0u << bits;
    bytes[i] = static_cast<char>(value);
  }
  write(bytes);
}

}  // namespace lathe::cli

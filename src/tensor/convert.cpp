// SPDX-License-Identifier: MIT
// A conversion widens to one of five types that represent every value of the source exactly, then
// narrows: 25 types need 150 loops instead of 625.
#include "tensor/convert.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "tensor/convert_wide.h"
#include "tensor/element_bits.h"
#include "tensor/number_text.h"

namespace lathe {
namespace {

using enum ElementType;

// A multiple of 8, so that chunks of packed elements start at a byte.
constexpr int64_t kChunk = 512;

struct Chunk {
  alignas(64) std::byte bytes[kChunk * 8];
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes);
  }
};

bool is_aligned(const void* pointer, ElementType type) {
  return reinterpret_cast<uintptr_t>(pointer) % static_cast<size_t>(info(type).bits / 8) == 0;
}

// Address of the first element of a chunk.
template <class T>
T* advance(T* data, ElementType type, int64_t index) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte*>(data) + bytes_for(type, index);
}

void convert_numbers(ElementType to, void* dst, ElementType from, const void* src, int64_t count,
                     const ConvertOptions& options) {
  const ElementType wide = wide_type(from);
  if (to == wide && is_aligned(dst, to)) return widen(from, src, dst, count);
  if (from == wide && is_aligned(src, from)) return narrow(to, dst, wide, src, count, options);
  Chunk chunk;
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t size = std::min(kChunk, count - i);
    widen(from, advance(src, from, i), chunk.bytes, size);
    narrow(to, advance(dst, to, i), wide, chunk.bytes, size, options);
  }
}

void convert_to_text(std::string* dst, ElementType from, const void* src, int64_t count) {
  const ElementType wide = wide_type(from);
  Chunk chunk;
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t size = std::min(kChunk, count - i);
    widen(from, advance(src, from, i), chunk.bytes, size);
    for (int64_t k = 0; k < size; ++k) {
      std::string& text = dst[i + k];
      switch (wide) {
        case f32:
          text = number_to_text(chunk.as<float>()[k]);
          break;
        case f64:
          text = number_to_text(chunk.as<double>()[k]);
          break;
        case i32:
          text = std::to_string(chunk.as<int32_t>()[k]);
          break;
        case i64:
          text = std::to_string(chunk.as<int64_t>()[k]);
          break;
        default:
          text = std::to_string(chunk.as<uint64_t>()[k]);
      }
    }
  }
}

void convert_from_text(ElementType to, void* dst, const std::string* src, int64_t count,
                       const ConvertOptions& options) {
  const ElementType wide = is_integer(to) ? u64 : to == f32 ? f32 : f64;
  Chunk chunk;
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t size = std::min(kChunk, count - i);
    for (int64_t k = 0; k < size; ++k) {
      const std::string& text = src[i + k];
      if (wide == u64) {
        chunk.as<uint64_t>()[k] = text_to_int(text);
      } else if (wide == f32) {
        chunk.as<float>()[k] = text_to_float(text);
      } else {
        chunk.as<double>()[k] = text_to_double(text);
      }
    }
    narrow(to, advance(dst, to, i), wide, chunk.bytes, size, options);
  }
}

template <class Float>
void complex_to_bool(void* dst, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const bool value =
        read_element<Float>(src, 2 * i) != 0 || read_element<Float>(src, 2 * i + 1) != 0;
    write_element(dst, i, static_cast<uint8_t>(value));
  }
}

}  // namespace

void convert(ElementType to, void* dst, ElementType from, const void* src, int64_t count,
             const ConvertOptions& options) {
  if (count <= 0) return;
  const bool is_complex_from = info(from).cls == ElementClass::complex;
  const bool is_complex_to = info(to).cls == ElementClass::complex;
  if (from == string && to == string) {
    std::copy_n(static_cast<const std::string*>(src), count, static_cast<std::string*>(dst));
  } else if (from == string) {
    convert_from_text(to, dst, static_cast<const std::string*>(src), count, options);
  } else if (to == string) {
    check(!is_complex_from, ErrorKind::unsupported, "conversion of {} to string is not supported",
          to_string(from));
    convert_to_text(static_cast<std::string*>(dst), from, src, count);
  } else if (from == to && !is_packed(from) && from != boolean) {
    std::memcpy(dst, src, static_cast<size_t>(bytes_for(from, count)));
  } else if (is_complex_from && is_complex_to) {
    const bool is_single = from == c64;
    convert_numbers(is_single ? f64 : f32, dst, is_single ? f32 : f64, src, 2 * count, options);
  } else if (is_complex_from && to == boolean) {
    from == c64 ? complex_to_bool<float>(dst, src, count)
                : complex_to_bool<double>(dst, src, count);
  } else {
    convert_numbers(to, dst, from, src, count, options);
  }
}

int64_t load_int(ElementType type, const void* data, int64_t index) {
  switch (type) {
    case i2:
      return sign_extend(2, read_bits<2>(data, index));
    case u2:
      return read_bits<2>(data, index);
    case i4:
      return sign_extend(4, read_bits<4>(data, index));
    case u4:
      return read_bits<4>(data, index);
    case i8:
      return read_element<int8_t>(data, index);
    case u8:
      return read_element<uint8_t>(data, index);
    case boolean:
      return read_element<uint8_t>(data, index) != 0;
    case i16:
      return read_element<int16_t>(data, index);
    case u16:
      return read_element<uint16_t>(data, index);
    case i32:
      return read_element<int32_t>(data, index);
    case u32:
      return read_element<uint32_t>(data, index);
    case i64:
    case u64:
      return read_element<int64_t>(data, index);
    default:
      fail(ErrorKind::internal, "cannot read an integer from a buffer of {}", to_string(type));
  }
}

void store_int(ElementType type, void* data, int64_t index, int64_t value) {
  switch (type) {
    case i2:
    case u2:
      return write_bits(2, data, index, static_cast<unsigned>(value));
    case i4:
    case u4:
      return write_bits(4, data, index, static_cast<unsigned>(value));
    case i8:
    case u8:
      return write_element(data, index, static_cast<uint8_t>(value));
    case boolean:
      return write_element(data, index, static_cast<uint8_t>(value != 0));
    case i16:
    case u16:
      return write_element(data, index, static_cast<uint16_t>(value));
    case i32:
    case u32:
      return write_element(data, index, static_cast<uint32_t>(value));
    case i64:
    case u64:
      return write_element(data, index, value);
    default:
      fail(ErrorKind::internal, "cannot write integer {} to a buffer of {}", value,
           to_string(type));
  }
}

double load_double(ElementType type, const void* data, int64_t index) {
  double value = 0;
  if (type == f4e2m1) return f4e2m1_to_float(read_bits<4>(data, index));
  if (is_packed(type)) return static_cast<double>(load_int(type, data, index));
  check(type != string, ErrorKind::internal, "cannot read element {} of a buffer of {} as a number",
        index, to_string(type));
  convert(f64, &value, type, advance(data, type, index), 1);
  return value;
}

void store_double(ElementType type, void* data, int64_t index, double value,
                  const ConvertOptions& options) {
  check(type != string, ErrorKind::internal, "cannot write number {} to a buffer of {}", value,
        to_string(type));
  if (!is_packed(type)) return convert(type, advance(data, type, index), f64, &value, 1, options);
  uint8_t bits = 0;
  convert(type, &bits, f64, &value, 1, options);
  write_bits(info(type).bits, data, index, bits);
}

}  // namespace lathe

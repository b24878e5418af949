// SPDX-License-Identifier: MIT
// Numbers go through one of five wide types that holds every value of the source exactly: first a
// loop that widens, then one that narrows, so that 25 types need 150 loops and not 625.
#include "tensor/convert.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "tensor/number_text.h"

namespace lathe {
namespace {

using enum ElementType;

// A multiple of 8, so that packed elements of a chunk begin at a byte.
constexpr int64_t kChunk = 512;

template <class T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

template <class T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value,
              sizeof(T));
}

// The bits of a packed element, right-aligned.
template <int kBits>
uint8_t read_bits(const void* data, int64_t index) {
  const auto i = static_cast<uint64_t>(index) * kBits;
  const int byte = static_cast<const uint8_t*>(data)[i / 8];
  return static_cast<uint8_t>((byte >> (i % 8)) & ((1 << kBits) - 1));
}

void write_bits(int bits, void* data, int64_t index, unsigned value) {
  const auto i = static_cast<uint64_t>(index) * static_cast<uint64_t>(bits);
  const unsigned mask = ((1u << bits) - 1) << (i % 8);
  uint8_t& byte = static_cast<uint8_t*>(data)[i / 8];
  byte = static_cast<uint8_t>((byte & ~mask) | ((value << (i % 8)) & mask));
}

int sign_extend(int bits, uint8_t value) {
  const int sign = 1 << (bits - 1);
  return (value ^ sign) - sign;
}

// The type that widening leads to.
ElementType wide_type(ElementType type) {
  switch (type) {
    case f64:
    case c128:
      return f64;
    case i64:
    case u32:
      return i64;
    case u64:
      return u64;
    default:
      return is_floating(type) || type == c64 ? f32 : i32;
  }
}

template <class Source, class Wide, class F>
void widen_loop(Wide* out, const void* src, int64_t count, const F& f) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Wide>(f(read<Source>(src, i)));
}

template <int kBits>
void widen_signed_bits(int32_t* out, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = sign_extend(kBits, read_bits<kBits>(src, i));
}

template <int kBits>
void widen_unsigned_bits(int32_t* out, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = read_bits<kBits>(src, i);
}

// Widens `count` elements into `out`, an array of wide_type(from).
void widen(ElementType from, const void* src, void* out, int64_t count) {
  auto* floats = static_cast<float*>(out);
  auto* doubles = static_cast<double*>(out);
  auto* ints = static_cast<int32_t*>(out);
  auto* longs = static_cast<int64_t*>(out);
  const auto same = [](auto x) { return x; };
  const auto real = [](auto x) { return x.real(); };
  switch (from) {
    case f16:
      return widen_loop<uint16_t>(floats, src, count, half_to_float);
    case bf16:
      return widen_loop<uint16_t>(floats, src, count, bf16_to_float);
    case f8e4m3fn:
      return widen_loop<uint8_t>(floats, src, count, f8e4m3fn_to_float);
    case f8e4m3fnuz:
      return widen_loop<uint8_t>(floats, src, count, f8e4m3fnuz_to_float);
    case f8e5m2:
      return widen_loop<uint8_t>(floats, src, count, f8e5m2_to_float);
    case f8e5m2fnuz:
      return widen_loop<uint8_t>(floats, src, count, f8e5m2fnuz_to_float);
    case f8e8m0:
      return widen_loop<uint8_t>(floats, src, count, f8e8m0_to_float);
    case f4e2m1:
      for (int64_t i = 0; i < count; ++i) floats[i] = f4e2m1_to_float(read_bits<4>(src, i));
      return;
    case i2:
      return widen_signed_bits<2>(ints, src, count);
    case i4:
      return widen_signed_bits<4>(ints, src, count);
    case u2:
      return widen_unsigned_bits<2>(ints, src, count);
    case u4:
      return widen_unsigned_bits<4>(ints, src, count);
    case i8:
      return widen_loop<int8_t>(ints, src, count, same);
    case i16:
      return widen_loop<int16_t>(ints, src, count, same);
    case u8:
      return widen_loop<uint8_t>(ints, src, count, same);
    case u16:
      return widen_loop<uint16_t>(ints, src, count, same);
    case boolean:
      return widen_loop<uint8_t>(ints, src, count, [](uint8_t x) { return x != 0; });
    case u32:
      return widen_loop<uint32_t>(longs, src, count, same);
    case c64:
      return widen_loop<std::complex<float>>(floats, src, count, real);
    case c128:
      return widen_loop<std::complex<double>>(doubles, src, count, real);
    default:
      std::memcpy(out, src, static_cast<size_t>(bytes_for(from, count)));
  }
}

int32_t truncate_to_i32(float x) {
  return x >= -0x1p31F && x < 0x1p31F ? static_cast<int32_t>(x)
                                      : std::numeric_limits<int32_t>::min();
}
int32_t truncate_to_i32(double x) {
  return x > -0x1p31 - 1 && x < 0x1p31 ? static_cast<int32_t>(x)
                                       : std::numeric_limits<int32_t>::min();
}

template <class Float>
int64_t truncate_to_i64(Float x) {
  return x >= Float{-0x1p63} && x < Float{0x1p63} ? static_cast<int64_t>(x)
                                                  : std::numeric_limits<int64_t>::min();
}

template <class Float>
uint64_t truncate_to_u64(Float x) {
  if (x >= Float{0x1p64}) return 0;
  if (x >= Float{0x1p63}) return static_cast<uint64_t>(x);
  return static_cast<uint64_t>(truncate_to_i64(x));
}

template <class Int, class Wide>
Int to_int(Wide x) {
  if constexpr (std::is_integral_v<Wide>) {
    return static_cast<Int>(x);
  } else if constexpr (std::is_same_v<Int, uint64_t>) {
    return truncate_to_u64(x);
  } else if constexpr (std::is_same_v<Int, int64_t> || std::is_same_v<Int, uint32_t>) {
    return static_cast<Int>(truncate_to_i64(x));
  } else {
    return static_cast<Int>(truncate_to_i32(x));
  }
}

// To f32 such that a small float made of it is rounded once in all.
template <class Wide>
float to_narrowing_float(Wide x) {
  if constexpr (std::is_same_v<Wide, float>) {
    return x;
  } else if constexpr (sizeof(Wide) == 8 && std::is_integral_v<Wide>) {
    // A double has 53 bits: collect those below its last in one. Nothing is lost up to 2^53.
    constexpr Wide kLow = 0x7FF;
    const Wide magnitude_limit = Wide{1} << 53;
    bool is_large = x >= magnitude_limit;
    if constexpr (std::is_signed_v<Wide>) is_large |= x <= -magnitude_limit;
    const Wide sticky = (x & kLow) != 0 ? kLow + 1 : 0;
    return round_to_odd(static_cast<double>(is_large ? (x & ~kLow) | sticky : x));
  } else {
    return round_to_odd(static_cast<double>(x));
  }
}

template <class Target, class Wide, class F>
void narrow_loop(void* dst, const Wide* in, int64_t count, const F& f) {
  for (int64_t i = 0; i < count; ++i) write<Target>(dst, i, f(in[i]));
}

template <int kBits, class Wide, class F>
void narrow_bits(void* dst, const Wide* in, int64_t count, const F& f) {
  constexpr int kPerByte = 8 / kBits;
  constexpr unsigned kMask = (1u << kBits) - 1;
  auto* out = static_cast<uint8_t*>(dst);
  for (int64_t i = 0; i < count; i += kPerByte) {
    unsigned byte = 0;
    for (int k = 0; k < kPerByte && i + k < count; ++k) {
      byte |= (static_cast<unsigned>(f(in[i + k])) & kMask) << (k * kBits);
    }
    *out++ = static_cast<uint8_t>(byte);
  }
}

template <class Int, class Wide>
void narrow_to_int(void* dst, const Wide* in, int64_t count) {
  narrow_loop<Int>(dst, in, count, [](Wide x) { return to_int<Int>(x); });
}

template <class Wide>
void narrow_to_small_float(ElementType to, void* dst, const Wide* in, int64_t count,
                           const ConvertOptions& options) {
  const auto loop8 = [&](auto f) {
    narrow_loop<uint8_t>(dst, in, count, [f](Wide x) { return f(to_narrowing_float(x)); });
  };
  const bool saturate = options.saturate;
  switch (to) {
    case f16:
      return narrow_loop<uint16_t>(dst, in, count,
                                   [](Wide x) { return float_to_half(to_narrowing_float(x)); });
    case bf16:
      return narrow_loop<uint16_t>(dst, in, count,
                                   [](Wide x) { return float_to_bf16(to_narrowing_float(x)); });
    case f8e4m3fn:
      return loop8([=](float x) { return float_to_f8e4m3fn(x, saturate); });
    case f8e4m3fnuz:
      return loop8([=](float x) { return float_to_f8e4m3fnuz(x, saturate); });
    case f8e5m2:
      return loop8([=](float x) { return float_to_f8e5m2(x, saturate); });
    case f8e5m2fnuz:
      return loop8([=](float x) { return float_to_f8e5m2fnuz(x, saturate); });
    case f8e8m0:
      return loop8([=](float x) { return float_to_f8e8m0(x, saturate, options.scale_rounding); });
    default:
      return narrow_bits<4>(dst, in, count,
                            [](Wide x) { return float_to_f4e2m1(to_narrowing_float(x)); });
  }
}

template <class Wide>
void narrow(ElementType to, void* dst, const Wide* in, int64_t count,
            const ConvertOptions& options) {
  const auto packed = [](Wide x) { return to_int<int32_t>(x); };
  switch (to) {
    case f32:
      return narrow_loop<float>(dst, in, count, [](Wide x) { return static_cast<float>(x); });
    case f64:
      return narrow_loop<double>(dst, in, count, [](Wide x) { return static_cast<double>(x); });
    case c64:
      return narrow_loop<std::complex<float>>(
          dst, in, count, [](Wide x) { return std::complex<float>(static_cast<float>(x)); });
    case c128:
      return narrow_loop<std::complex<double>>(
          dst, in, count, [](Wide x) { return std::complex<double>(static_cast<double>(x)); });
    case boolean:
      return narrow_loop<uint8_t>(dst, in, count,
                                  [](Wide x) { return static_cast<uint8_t>(x != 0); });
    case i8:
    case u8:
      return narrow_to_int<uint8_t>(dst, in, count);
    case i16:
    case u16:
      return narrow_to_int<uint16_t>(dst, in, count);
    case i32:
      return narrow_to_int<int32_t>(dst, in, count);
    case u32:
      return narrow_to_int<uint32_t>(dst, in, count);
    case i64:
      return narrow_to_int<int64_t>(dst, in, count);
    case u64:
      return narrow_to_int<uint64_t>(dst, in, count);
    case i2:
    case u2:
      return narrow_bits<2>(dst, in, count, packed);
    case i4:
    case u4:
      return narrow_bits<4>(dst, in, count, packed);
    default:
      return narrow_to_small_float(to, dst, in, count, options);
  }
}

// Narrows an array of wide_type type `wide`.
void narrow_any(ElementType to, void* dst, ElementType wide, const void* in, int64_t count,
                const ConvertOptions& options) {
  switch (wide) {
    case f32:
      return narrow(to, dst, static_cast<const float*>(in), count, options);
    case f64:
      return narrow(to, dst, static_cast<const double*>(in), count, options);
    case i32:
      return narrow(to, dst, static_cast<const int32_t*>(in), count, options);
    case i64:
      return narrow(to, dst, static_cast<const int64_t*>(in), count, options);
    default:
      return narrow(to, dst, static_cast<const uint64_t*>(in), count, options);
  }
}

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

// The address of an element at which a chunk begins.
template <class T>
T* advance(T* data, ElementType type, int64_t index) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte*>(data) + bytes_for(type, index);
}

void convert_numbers(ElementType to, void* dst, ElementType from, const void* src, int64_t count,
                     const ConvertOptions& options) {
  const ElementType wide = wide_type(from);
  if (to == wide && is_aligned(dst, to)) return widen(from, src, dst, count);
  if (from == wide && is_aligned(src, from)) return narrow_any(to, dst, wide, src, count, options);
  Chunk chunk;
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t size = std::min(kChunk, count - i);
    widen(from, advance(src, from, i), chunk.bytes, size);
    narrow_any(to, advance(dst, to, i), wide, chunk.bytes, size, options);
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
    narrow_any(to, advance(dst, to, i), wide, chunk.bytes, size, options);
  }
}

template <class Float>
void complex_to_bool(void* dst, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const bool value = read<Float>(src, 2 * i) != 0 || read<Float>(src, 2 * i + 1) != 0;
    write(dst, i, static_cast<uint8_t>(value));
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
    check(!is_complex_from, ErrorKind::unsupported, "elements of {} cannot become text",
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
      return read<int8_t>(data, index);
    case u8:
      return read<uint8_t>(data, index);
    case boolean:
      return read<uint8_t>(data, index) != 0;
    case i16:
      return read<int16_t>(data, index);
    case u16:
      return read<uint16_t>(data, index);
    case i32:
      return read<int32_t>(data, index);
    case u32:
      return read<uint32_t>(data, index);
    case i64:
    case u64:
      return read<int64_t>(data, index);
    default:
      fail(ErrorKind::internal, "integer read from elements of {}", to_string(type));
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
      return write(data, index, static_cast<uint8_t>(value));
    case boolean:
      return write(data, index, static_cast<uint8_t>(value != 0));
    case i16:
    case u16:
      return write(data, index, static_cast<uint16_t>(value));
    case i32:
    case u32:
      return write(data, index, static_cast<uint32_t>(value));
    case i64:
    case u64:
      return write(data, index, value);
    default:
      fail(ErrorKind::internal, "integer {} written to elements of {}", value, to_string(type));
  }
}

double load_double(ElementType type, const void* data, int64_t index) {
  double value = 0;
  if (type == f4e2m1) return f4e2m1_to_float(read_bits<4>(data, index));
  if (is_packed(type)) return static_cast<double>(load_int(type, data, index));
  check(type != string, ErrorKind::internal, "number {} read from elements of {}", index,
        to_string(type));
  convert(f64, &value, type, advance(data, type, index), 1);
  return value;
}

void store_double(ElementType type, void* data, int64_t index, double value,
                  const ConvertOptions& options) {
  check(type != string, ErrorKind::internal, "number {} written to elements of {}", value,
        to_string(type));
  if (!is_packed(type)) return convert(type, advance(data, type, index), f64, &value, 1, options);
  uint8_t bits = 0;
  convert(type, &bits, f64, &value, 1, options);
  write_bits(info(type).bits, data, index, bits);
}

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include <complex>
#include <limits>
#include <type_traits>

#include "tensor/convert_wide.h"
#include "tensor/element_bits.h"

namespace lathe {
namespace {

using enum ElementType;

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

// Converts to f64 so that a further rounding to a smaller float equals one rounding.
template <class Wide>
double to_narrowing_double(Wide x) {
  if constexpr (sizeof(Wide) == 8 && std::is_integral_v<Wide>) {
    // f64 has 53 bits: OR the bits below into one sticky bit. Exact up to 2^53.
    constexpr Wide kLow = 0x7FF;
    const Wide magnitude_limit = Wide{1} << 53;
    bool is_large = x >= magnitude_limit;
    if constexpr (std::is_signed_v<Wide>) is_large |= x <= -magnitude_limit;
    const Wide sticky = (x & kLow) != 0 ? kLow + 1 : 0;
    return static_cast<double>(is_large ? (x & ~kLow) | sticky : x);
  } else {
    return static_cast<double>(x);
  }
}

// Converts 64-bit integers through f64: on ARM, vectorised casts round twice.
template <class Wide>
float to_single(Wide x) {
  if constexpr (sizeof(Wide) == 8) {
    return static_cast<float>(to_narrowing_double(x));
  } else {
    return static_cast<float>(x);
  }
}

// Converts to f32 so that a further rounding to a small float equals one rounding.
template <class Wide>
float to_narrowing_float(Wide x) {
  if constexpr (std::is_same_v<Wide, float>) {
    return x;
  } else {
    return round_to_odd(to_narrowing_double(x));
  }
}

template <class Target, class Wide, class F>
void narrow_loop(void* dst, const Wide* in, int64_t count, const F& f) {
  for (int64_t i = 0; i < count; ++i) write_element<Target>(dst, i, f(in[i]));
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
void narrow_from(ElementType to, void* dst, const Wide* in, int64_t count,
                 const ConvertOptions& options) {
  const auto packed = [](Wide x) { return to_int<int32_t>(x); };
  switch (to) {
    case f32:
      return narrow_loop<float>(dst, in, count, [](Wide x) { return to_single(x); });
    case f64:
      return narrow_loop<double>(dst, in, count, [](Wide x) { return static_cast<double>(x); });
    case c64:
      return narrow_loop<std::complex<float>>(
          dst, in, count, [](Wide x) { return std::complex<float>(to_single(x)); });
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

}  // namespace

void narrow(ElementType to, void* dst, ElementType wide, const void* in, int64_t count,
            const ConvertOptions& options) {
  switch (wide) {
    case f32:
      return narrow_from(to, dst, static_cast<const float*>(in), count, options);
    case f64:
      return narrow_from(to, dst, static_cast<const double*>(in), count, options);
    case i32:
      return narrow_from(to, dst, static_cast<const int32_t*>(in), count, options);
    case i64:
      return narrow_from(to, dst, static_cast<const int64_t*>(in), count, options);
    default:
      return narrow_from(to, dst, static_cast<const uint64_t*>(in), count, options);
  }
}

}  // namespace lathe

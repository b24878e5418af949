// SPDX-License-Identifier: MIT
#include <complex>

#include "tensor/convert_wide.h"
#include "tensor/element_bits.h"

namespace lathe {
namespace {

using enum ElementType;

template <class Source, class Wide, class F>
void widen_loop(Wide* out, const void* src, int64_t count, const F& f) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Wide>(f(read_element<Source>(src, i)));
}

template <int kBits>
void widen_signed_bits(int32_t* out, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = sign_extend(kBits, read_bits<kBits>(src, i));
}

template <int kBits>
void widen_unsigned_bits(int32_t* out, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = read_bits<kBits>(src, i);
}

}  // namespace

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

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Conversion of the small float formats of ONNX to and from f32, with Cast's rounding and special
// values. Branch-free, so that loops vectorise.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace lathe {

// Rounding to f8e8m0, the powers of two; ties of `nearest` go up.
enum class ScaleRounding : uint8_t { up, down, nearest };

namespace small_float {

inline constexpr uint32_t kSign = 0x80000000;
inline constexpr uint32_t kInf = 0x7F800000;  // larger magnitudes are NaNs
inline constexpr uint32_t kNan = 0x7FC00000;

// Compares values below 2^31 as signed integers: SSE2 has no unsigned comparison.
constexpr bool is_less(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a) < static_cast<int32_t>(b);
}
constexpr uint32_t smaller(uint32_t a, uint32_t b) { return is_less(a, b) ? a : b; }

// Rounds the magnitude of a finite f32 half to even to fewer bits. Exponents may exceed the format:
// the caller compares with its largest code.
template <int kMantissaBits, int kBias>
uint32_t round_magnitude(uint32_t magnitude) {
  constexpr int kShift = 23 - kMantissaBits;
  constexpr uint32_t kHalf = (1u << (kShift - 1)) - 1;
  constexpr auto kRebias = static_cast<uint32_t>(127 - kBias) << kMantissaBits;
  constexpr auto kSmallestNormal = static_cast<uint32_t>(127 - kBias + 1) << 23;
  // Adding this to a value below the smallest normal rounds it, and leaves multiples of the
  // format's smallest subnormal in the low bits.
  constexpr auto kMagic = static_cast<uint32_t>(127 + 1 - kBias - kMantissaBits + 23) << 23;
  const uint32_t normal = ((magnitude + kHalf + ((magnitude >> kShift) & 1)) >> kShift) - kRebias;
  const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic);
  const uint32_t subnormal = std::bit_cast<uint32_t>(sum) - kMagic;
  return is_less(magnitude, kSmallestNormal) ? subnormal : normal;
}

// Decodes the magnitude of a finite code.
template <int kMantissaBits, int kBias>
constexpr float decode_magnitude(uint32_t code) {
  const uint32_t exponent = code >> kMantissaBits;
  const uint32_t mantissa = code & ((1u << kMantissaBits) - 1);
  const auto power = [](int e) {
    return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23);
  };
  const float steps =
      static_cast<float>(exponent == 0 ? mantissa : mantissa + (1u << kMantissaBits));
  return steps * power(static_cast<int>(std::max(exponent, 1u)) - kBias - kMantissaBits);
}

constexpr float with_sign(float magnitude, uint32_t sign) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

// IEEE-like with a sign bit; codes above `kMax` are infinity and NaN (kInfCode 0: no infinity).
template <int kMantissaBits, int kBias, uint32_t kMax, uint32_t kInfCode, uint32_t kNanCode>
struct SignedF8 {
  static uint8_t encode(float x, bool saturate) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t overflow = saturate ? kMax : (kInfCode != 0 ? kInfCode : kNanCode);
    uint32_t code = round_magnitude<kMantissaBits, kBias>(smaller(magnitude, kInf));
    code = is_less(kMax, code) ? overflow : code;
    code = is_less(kInf, magnitude) ? kNanCode : code;
    return static_cast<uint8_t>(code | (bits & kSign) >> 24);
  }
  static constexpr float decode(uint32_t byte) {
    const uint32_t code = byte & 0x7F;
    float value = decode_magnitude<kMantissaBits, kBias>(code);
    if (code > kMax) value = std::bit_cast<float>(code == kInfCode ? kInf : kNan);
    return with_sign(value, (byte & 0x80) << 24);
  }
};

// "fnuz": finite, one NaN (0x80), no negative zero.
template <int kMantissaBits, int kBias>
struct UnsignedZeroF8 {
  static uint8_t encode(float x, bool saturate) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t magnitude = bits & ~kSign;
    const uint32_t code = round_magnitude<kMantissaBits, kBias>(smaller(magnitude, kInf));
    const uint32_t limit = saturate ? kInf : 0x7F;
    const bool is_nan = is_less(kInf, magnitude) || is_less(limit, code);
    const uint32_t finite = smaller(code, 0x7F);
    const uint32_t sign = finite == 0 ? 0 : (bits & kSign) >> 24;
    return static_cast<uint8_t>(is_nan ? 0x80 : finite | sign);
  }
  static constexpr float decode(uint32_t byte) {
    if (byte == 0x80) return std::bit_cast<float>(kNan | kSign);
    return with_sign(decode_magnitude<kMantissaBits, kBias>(byte & 0x7F), (byte & 0x80) << 24);
  }
};

using F8e4m3fn = SignedF8<3, 7, 0x7E, 0, 0x7F>;
using F8e5m2 = SignedF8<2, 15, 0x7B, 0x7C, 0x7E>;
using F8e4m3fnuz = UnsignedZeroF8<3, 8>;
using F8e5m2fnuz = UnsignedZeroF8<2, 16>;

template <class Format>
constexpr std::array<float, 256> make_table() {
  std::array<float, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) table[byte] = Format::decode(byte);
  return table;
}
template <class Format>
inline constexpr std::array<float, 256> kTable = make_table<Format>();

}  // namespace small_float

// Rounds to odd (toward zero, lowest bit set if inexact), so that a second rounding to a small
// format equals one rounding of x.
inline float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  const double magnitude = x < 0 ? -x : x;
  const bool is_larger = (back < 0 ? -back : back) > magnitude;
  const bool is_inexact = back < x || back > x;  // false for NaN
  const uint32_t bits = std::bit_cast<uint32_t>(nearest) - (is_larger ? 1u : 0u);
  return std::bit_cast<float>(bits | (is_inexact ? 1u : 0u));
}

inline float half_to_float(uint16_t half) {
  using namespace small_float;
  const uint32_t magnitude = (half & 0x7FFFu) << 13;
  const uint32_t normal = magnitude + (112u << 23);
  // Subnormals are multiples of 2^-24.
  const float subnormal = static_cast<float>(static_cast<int32_t>(half & 0x7FFFu)) * 0x1p-24f;
  uint32_t bits = is_less(magnitude, 1u << 23) ? std::bit_cast<uint32_t>(subnormal) : normal;
  bits = is_less(magnitude, 31u << 23) ? bits : magnitude | kInf;
  return std::bit_cast<float>(bits | static_cast<uint32_t>(half & 0x8000) << 16);
}

inline uint16_t float_to_half(float x) {
  using namespace small_float;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t rounded = smaller(round_magnitude<10, 15>(magnitude), 0x7C00);
  const uint32_t nan = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  const uint32_t code = is_less(kInf, magnitude) ? nan : rounded;
  return static_cast<uint16_t>(code | (bits & kSign) >> 16);
}

inline float bf16_to_float(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

inline uint16_t float_to_bf16(float x) {
  using namespace small_float;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = 0x7FC0 | (bits & kSign) >> 16;
  return static_cast<uint16_t>(is_less(kInf, bits & ~kSign) ? nan : rounded);
}

inline float f8e4m3fn_to_float(uint8_t value) {
  return small_float::kTable<small_float::F8e4m3fn>[value];
}
inline float f8e4m3fnuz_to_float(uint8_t value) {
  return small_float::kTable<small_float::F8e4m3fnuz>[value];
}
inline float f8e5m2_to_float(uint8_t value) {
  return small_float::kTable<small_float::F8e5m2>[value];
}
inline float f8e5m2fnuz_to_float(uint8_t value) {
  return small_float::kTable<small_float::F8e5m2fnuz>[value];
}

// Saturating: infinity and overflow become the largest finite value. Otherwise they become
// infinity, or NaN in formats without it.
inline uint8_t float_to_f8e4m3fn(float x, bool saturate = true) {
  return small_float::F8e4m3fn::encode(x, saturate);
}
inline uint8_t float_to_f8e4m3fnuz(float x, bool saturate = true) {
  return small_float::F8e4m3fnuz::encode(x, saturate);
}
inline uint8_t float_to_f8e5m2(float x, bool saturate = true) {
  return small_float::F8e5m2::encode(x, saturate);
}
inline uint8_t float_to_f8e5m2fnuz(float x, bool saturate = true) {
  return small_float::F8e5m2fnuz::encode(x, saturate);
}

// Codes 0 to 0xFE are 2^-127 to 2^127; 0xFF is NaN.
inline float f8e8m0_to_float(uint8_t value) {
  const uint32_t bits = value == 0 ? 1u << 22 : static_cast<uint32_t>(value) << 23;
  return std::bit_cast<float>(value == 0xFF ? small_float::kNan : bits);
}

// Saturating: zero and underflow become 2^-127, infinity and overflow 2^127. Otherwise they become
// NaN. Negative values, which ONNX leaves undefined, become NaN.
inline uint8_t float_to_f8e8m0(float x, bool saturate = true,
                               ScaleRounding rounding = ScaleRounding::up) {
  using namespace small_float;
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & ~kSign) > kInf || bits > kSign) return 0xFF;
  const uint32_t magnitude = bits & ~kSign;
  if (magnitude < 1u << 22) return saturate ? 0 : 0xFF;
  // Subnormals from 2^-127 on have one mantissa bit less than normal values.
  const bool is_subnormal = magnitude < 1u << 23;
  const uint32_t fraction = is_subnormal ? (magnitude << 1) & 0x7FFFFF : magnitude & 0x7FFFFF;
  const uint32_t threshold = rounding == ScaleRounding::up ? 1u : 0x400000u;
  const bool goes_up = rounding != ScaleRounding::down && fraction >= threshold;
  const uint32_t code = (magnitude >> 23) + (goes_up ? 1 : 0);
  return static_cast<uint8_t>(code < 0xFF ? code : (saturate ? 0xFE : 0xFF));
}

// Decodes the low four bits: ±0, 0.5, 1, 1.5, 2, 3, 4, 6.
inline float f4e2m1_to_float(uint8_t value) {
  constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};
  return kValues[value & 15];
}

// Always saturates: the format has neither infinity nor NaN. NaN becomes zero with the opposite
// sign, as in ONNX's reference.
inline uint8_t float_to_f4e2m1(float x) {
  using namespace small_float;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & ~kSign;
  const uint32_t sign = (bits & kSign) >> 28;
  const uint32_t code = smaller(round_magnitude<1, 1>(smaller(magnitude, kInf)), 7);
  return static_cast<uint8_t>(is_less(kInf, magnitude) ? 8 - sign : code | sign);
}

}  // namespace lathe

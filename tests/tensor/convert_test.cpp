// SPDX-License-Identifier: MIT
#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "tensor/number_text.h"

namespace lathe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class To, class From>
To convert_one(ElementType to, ElementType from, From value, ConvertOptions options = {}) {
  To result{};
  convert(to, &result, from, &value, 1, options);
  return result;
}

std::string to_text(ElementType from, auto value) {
  return convert_one<std::string>(ElementType::string, from, value);
}

// Results of ONNX Runtime 1.31 on x86; f32 sources equal f64 sources.
TEST(Convert, IntegersFromFloatsOutOfRangeFollowX86) {
  const double values[] = {kNan, kInfinity, -kInfinity, 300.7, -300.7, 70000, 3e9, -3e9, 1e30};
  const auto expect = [&]<class T>(ElementType to, std::vector<T> expected) {
    std::vector<T> found(std::size(values));
    convert(to, found.data(), ElementType::f64, values, static_cast<int64_t>(found.size()));
    EXPECT_EQ(found, expected) << to_string(to);
    for (size_t i = 0; i < found.size(); ++i) {
      const auto single = static_cast<float>(values[i]);
      EXPECT_EQ((convert_one<T>(to, ElementType::f32, single)), expected[i])
          << to_string(to) << " from f32 " << single;
    }
  };
  expect(ElementType::i8, std::vector<int8_t>{0, 0, 0, 44, -44, 112, 0, 0, 0});
  expect(ElementType::u8, std::vector<uint8_t>{0, 0, 0, 44, 212, 112, 0, 0, 0});
  expect(ElementType::i16, std::vector<int16_t>{0, 0, 0, 300, -300, 4464, 0, 0, 0});
  expect(ElementType::u16, std::vector<uint16_t>{0, 0, 0, 300, 65236, 4464, 0, 0, 0});
  constexpr int32_t kLow32 = std::numeric_limits<int32_t>::min();
  expect(ElementType::i32,
         std::vector<int32_t>{kLow32, kLow32, kLow32, 300, -300, 70000, kLow32, kLow32, kLow32});
  expect(ElementType::u32,
         std::vector<uint32_t>{0, 0, 0, 300, 4294966996, 70000, 3000000000, 1294967296, 0});
  constexpr int64_t kLow64 = std::numeric_limits<int64_t>::min();
  expect(ElementType::i64, std::vector<int64_t>{kLow64, kLow64, kLow64, 300, -300, 70000,
                                                3000000000, -3000000000, kLow64});
  constexpr uint64_t kHalf = uint64_t{1} << 63;
  expect(ElementType::u64, std::vector<uint64_t>{kHalf, 0, kHalf, 300, 0 - uint64_t{300}, 70000,
                                                 3000000000, 0 - uint64_t{3000000000}, 0});
  EXPECT_EQ((convert_one<uint64_t>(ElementType::u64, ElementType::f64, 1e19)),
            10000000000000000000u);
}

TEST(Convert, NonzeroNumbersBecomeTrue) {
  const auto is_true = [](ElementType from, auto value) {
    return convert_one<uint8_t>(ElementType::boolean, from, value) == 1;
  };
  EXPECT_FALSE(is_true(ElementType::f32, -0.0F));
  EXPECT_TRUE(is_true(ElementType::f32, 1e-40F));
  EXPECT_TRUE(is_true(ElementType::f64, kNan));
  EXPECT_TRUE(is_true(ElementType::i64, int64_t{1} << 40));
  EXPECT_TRUE(is_true(ElementType::u64, uint64_t{1} << 63));
  EXPECT_TRUE(is_true(ElementType::boolean, uint8_t{7}));
  EXPECT_FALSE(is_true(ElementType::c64, std::complex<float>(0, 0)));
  EXPECT_TRUE(is_true(ElementType::c128, std::complex<double>(0, 2)));
  EXPECT_EQ((convert_one<float>(ElementType::f32, ElementType::boolean, uint8_t{9})), 1.0F);
}

TEST(Convert, ComplexNumbersKeepOrTakeTheRealPart) {
  const std::complex<float> value(1.5F, -2);
  EXPECT_EQ((convert_one<double>(ElementType::f64, ElementType::c64, value)), 1.5);
  EXPECT_EQ((convert_one<std::complex<double>>(ElementType::c128, ElementType::c64, value)),
            std::complex<double>(1.5, -2));
  EXPECT_EQ((convert_one<std::complex<float>>(ElementType::c64, ElementType::c128,
                                              std::complex<double>(3, 4))),
            std::complex<float>(3, 4));
  EXPECT_EQ((convert_one<std::complex<float>>(ElementType::c64, ElementType::i8, int8_t{-3})),
            std::complex<float>(-3, 0));
  EXPECT_THROW(to_text(ElementType::c64, value), Error);
}

// Slightly more than half a step above 1: rounding to f32 first would make it a tie and round down.
TEST(Convert, NumbersAreRoundedOnce) {
  const double beyond_half = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ((convert_one<uint16_t>(ElementType::f16, ElementType::f64, beyond_half)), 0x3C01);
  const double beyond_bf16 = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ((convert_one<uint16_t>(ElementType::bf16, ElementType::f64, beyond_bf16)), 0x3F81);
  const int64_t beyond = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  EXPECT_EQ((convert_one<uint16_t>(ElementType::bf16, ElementType::i64, beyond)), 0x5E81);
  EXPECT_EQ((convert_one<uint16_t>(ElementType::bf16, ElementType::i64, -beyond)), 0xDE81);
  EXPECT_EQ((convert_one<float>(ElementType::f32, ElementType::i64,
                                (int64_t{1} << 60) + (int64_t{1} << 36) + 1)),
            0x1p60F + 0x1p37F);
}

// From the documentation of ONNX's Cast.
TEST(Convert, SpecialValuesOfF8E8M0FollowTheTable) {
  const auto scale = [](float x, bool saturate, ScaleRounding rounding) {
    return int{convert_one<uint8_t>(ElementType::f8e8m0, ElementType::f32, x,
                                    {.saturate = saturate, .scale_rounding = rounding})};
  };
  constexpr auto kFloatInf = std::numeric_limits<float>::infinity();
  const auto up = [&](float x) { return scale(x, true, ScaleRounding::up); };
  const auto nearest = [&](float x) { return scale(x, false, ScaleRounding::nearest); };
  EXPECT_EQ(up(0), 0);
  EXPECT_EQ(up(NAN), 0xFF);
  EXPECT_EQ(up(kFloatInf), 0xFE);
  EXPECT_EQ(up(0x1.8p127F), 0xFE);
  EXPECT_EQ(up(0x1p-140F), 0);
  EXPECT_EQ(nearest(0), 0xFF);
  EXPECT_EQ(nearest(NAN), 0xFF);
  EXPECT_EQ(nearest(kFloatInf), 0xFF);
  EXPECT_EQ(nearest(0x1.8p127F), 0xFF);
  EXPECT_EQ(nearest(0x1p-140F), 0xFF);
  // Subnormal floats are valid scales.
  EXPECT_EQ(up(0x1p-127F), 0);
  EXPECT_EQ(up(0x1.1p-127F), 1);
  EXPECT_EQ(nearest(0x1.4p-127F), 0);
  EXPECT_EQ(nearest(0x1.8p-127F), 1);
  EXPECT_EQ(scale(0x1.8p-127F, true, ScaleRounding::down), 0);
  EXPECT_EQ(up(-2), 0xFF);
}

TEST(Convert, PackedElementsStartAtTheLowBitsAndZeroTheRest) {
  const int32_t values[] = {1, -2, 7, -8, 9};
  uint8_t packed[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  convert(ElementType::i4, packed, ElementType::i32, values, 5);
  EXPECT_EQ(packed[0], 0xE1);
  EXPECT_EQ(packed[1], 0x87);
  EXPECT_EQ(packed[2], 0x09);
  EXPECT_EQ(packed[3], 0xFF);
  uint8_t twos[2] = {0xFF, 0xFF};
  convert(ElementType::u2, twos, ElementType::i4, packed, 5);
  EXPECT_EQ(twos[0], 0b00111001);
  EXPECT_EQ(twos[1], 0b01);
  const uint8_t dirty[] = {0x21, 0xF3};
  uint8_t copy[2] = {};
  convert(ElementType::u4, copy, ElementType::u4, dirty, 3);
  EXPECT_EQ(copy[1], 0x03);
}

TEST(Convert, LongAndUnalignedBuffersAreConvertedInPieces) {
  constexpr int64_t kCount = 1500;
  std::vector<char> source(kCount * 2 + 1);
  std::vector<char> target(kCount * 4 + 1);
  for (int64_t i = 0; i < kCount; ++i) {
    store_int(ElementType::i16, source.data() + 1, i, i - 700);
  }
  convert(ElementType::f32, target.data() + 1, ElementType::i16, source.data() + 1, kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(load_double(ElementType::f32, target.data() + 1, i), static_cast<double>(i - 700));
  }
  std::vector<uint8_t> nibbles(kCount / 2);
  convert(ElementType::u4, nibbles.data(), ElementType::f32, target.data() + 1, kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(load_int(ElementType::u4, nibbles.data(), i), (i - 700) & 15);
  }
}

TEST(Convert, SingleElementsAreReadAndWrittenInPlace) {
  for (const ElementTypeInfo& entry : element_types()) {
    if (entry.cls == ElementClass::complex || entry.type == ElementType::string) continue;
    std::vector<uint8_t> buffer(64, 0);
    const bool is_whole = is_integer(entry.type) || entry.type == ElementType::boolean;
    store_double(entry.type, buffer.data(), 2, 1);
    if (is_whole) {
      store_int(entry.type, buffer.data(), 1, 1);
      EXPECT_EQ(load_int(entry.type, buffer.data(), 1), 1) << entry.name;
      EXPECT_EQ(load_int(entry.type, buffer.data(), 2), 1) << entry.name;
      EXPECT_EQ(load_int(entry.type, buffer.data(), 3), 0) << entry.name;
    }
    EXPECT_EQ(load_double(entry.type, buffer.data(), 2), 1) << entry.name;
    if (entry.cls == ElementClass::signed_int) {
      store_int(entry.type, buffer.data(), 1, -2);
      EXPECT_EQ(load_int(entry.type, buffer.data(), 1), -2) << entry.name;
      EXPECT_EQ(load_double(entry.type, buffer.data(), 2), 1) << entry.name;
    }
  }
  float number = 0;
  EXPECT_THROW(load_int(ElementType::f32, &number, 0), Error);
  EXPECT_THROW(store_int(ElementType::f32, &number, 0, 1), Error);
}

TEST(Convert, NumbersBecomeTheShortestStringThatRoundTrips) {
  EXPECT_EQ(to_text(ElementType::f32, 314.15926F), "314.15927");
  EXPECT_EQ(to_text(ElementType::f64, 314.15926), "314.15926");
  EXPECT_EQ(to_text(ElementType::f32, 0.1F), "0.1");
  EXPECT_EQ(to_text(ElementType::f64, 0.1), "0.1");
  EXPECT_EQ(to_text(ElementType::f32, 1.0F), "1");
  EXPECT_EQ(to_text(ElementType::f32, -0.0F), "-0");
  EXPECT_EQ(to_text(ElementType::f64, 1e20), "1e+20");
  EXPECT_EQ(to_text(ElementType::f64, kNan), "NaN");
  EXPECT_EQ(to_text(ElementType::f64, kInfinity), "INF");
  EXPECT_EQ(to_text(ElementType::f32, -std::numeric_limits<float>::infinity()), "-INF");
  EXPECT_EQ(to_text(ElementType::f16, uint16_t{0x2E66}), "0.099975586");
  EXPECT_EQ(to_text(ElementType::i8, int8_t{-128}), "-128");
  EXPECT_EQ(to_text(ElementType::u64, std::numeric_limits<uint64_t>::max()),
            "18446744073709551615");
  EXPECT_EQ(to_text(ElementType::i64, std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(to_text(ElementType::boolean, uint8_t{1}), "1");
}

TEST(Convert, StringsBecomeNumbers) {
  const auto read = [](const char* text) {
    return convert_one<double>(ElementType::f64, ElementType::string, std::string(text));
  };
  EXPECT_EQ(read("3.14"), 3.14);
  EXPECT_EQ(read("1000"), 1000);
  EXPECT_EQ(read("1e-5"), 1e-5);
  EXPECT_EQ(read("1E8"), 1e8);
  EXPECT_EQ(read("+1.5"), 1.5);
  EXPECT_EQ(read(" \t.5\n"), 0.5);
  EXPECT_TRUE(std::signbit(read("-0")));
  for (const char* text : {"+INF", "INF", "inf", "+Infinity", "1e400", "12345678901e300"}) {
    EXPECT_EQ(read(text), kInfinity) << text;
  }
  for (const char* text : {"-INF", "-inf", "-1e99999999999999999999"}) {
    EXPECT_EQ(read(text), -kInfinity) << text;
  }
  for (const char* text : {"1e-400", "0.0001e-330", "1e-99999999999999999999"}) {
    EXPECT_EQ(read(text), 0) << text;
  }
  for (const char* text : {"NaN", "nan", "+NAN", "-nan"}) {
    EXPECT_TRUE(std::isnan(read(text))) << text;
  }
  const std::string half = "0.1";
  EXPECT_EQ((convert_one<float>(ElementType::f32, ElementType::string, half)), 0.1F);
  EXPECT_EQ((convert_one<uint16_t>(ElementType::f16, ElementType::string, half)), 0x2E66);
  EXPECT_EQ((convert_one<uint8_t>(ElementType::boolean, ElementType::string, half)), 1);
}

TEST(Convert, StringsBecomeIntegers) {
  const auto read = [](const char* text) {
    return convert_one<int64_t>(ElementType::i64, ElementType::string, std::string(text));
  };
  EXPECT_EQ(read("100"), 100);
  EXPECT_EQ(read("+7"), 7);
  EXPECT_EQ(read("100.5"), 100);
  EXPECT_EQ(read("-2.7"), -2);
  EXPECT_EQ(read("1e3"), 1000);
  EXPECT_EQ(read("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(text_to_int("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ((convert_one<int8_t>(ElementType::i8, ElementType::string, std::string("300"))), 44);
}

TEST(Convert, ErrorsOfInvalidStringsContainTheString) {
  for (const char* text : {"", " ", "Hello World!", "1.5x", "0x10", "--1", "+-1", "1 2", "nan(3)",
                           "e5", ".", "true"}) {
    EXPECT_THROW(text_to_double(text), Error) << text;
    EXPECT_THROW(text_to_int(text), Error) << text;
  }
  for (const char* text : {"99999999999999999999", "-9223372036854775809", "1e30", "INF", "NaN"}) {
    EXPECT_THROW(text_to_int(text), Error) << text;
  }
  try {
    text_to_float("Hello\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(error.message().find("Hello\\x0a"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace lathe

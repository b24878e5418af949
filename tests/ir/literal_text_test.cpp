// SPDX-License-Identifier: MIT
// Literals in the text form: every bit pattern, shortest decimals, locations and hashes.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using test::contains;

// The text form of a literal.
std::string literal_line(const Tensor& tensor) {
  Program program;
  Builder builder(program.main());
  Value* value = builder.literal(tensor, "w");
  program.main().set_results({value}, {"w"});
  const std::string once = print(program, {.inline_bytes = 1 << 20});
  const auto parsed = parse_program(once);
  EXPECT_EQ(print(*parsed, {.inline_bytes = 1 << 20}), once);
  const Tensor& read = (*parsed->main().instructions().begin())->literal()->tensor;
  EXPECT_TRUE(identical(read, tensor)) << once;
  const std::string line = print(*value->definition(), {.inline_bytes = 1 << 20});
  return line.substr(line.find('{'));
}

TEST(LiteralText, keeps_every_bit_pattern_of_types_up_to_16_bits) {
  for (const ElementTypeInfo& type : element_types()) {
    if (type.bits == 0 || type.bits > 16 || type.type == ElementType::boolean) continue;
    const int64_t count = int64_t{1} << type.bits;
    Tensor tensor(type.type, {count});
    for (int64_t i = 0; i < count; ++i) {
      const int64_t per_byte = std::max(8 / type.bits, 1);
      uint8_t* byte = tensor.as<uint8_t>() + (type.bits < 8 ? i / per_byte : i * (type.bits / 8));
      if (type.bits < 8) {
        *byte = static_cast<uint8_t>(*byte | (i << ((i % per_byte) * type.bits)));
      } else {
        std::memcpy(byte, &i, static_cast<size_t>(type.bits / 8));
      }
    }
    SCOPED_TRACE(type.name);
    EXPECT_GT(literal_line(tensor).size(), static_cast<size_t>(count));
  }
}

template <class T>
std::string line_of(ElementType type, const std::vector<T>& values) {
  const size_t bytes = static_cast<size_t>(info(type).bits) / 8;
  Tensor tensor(type, {static_cast<int64_t>(values.size() * sizeof(T) / bytes)});
  std::memcpy(tensor.data(), values.data(), values.size() * sizeof(T));
  return literal_line(tensor);
}

TEST(LiteralText, prints_the_shortest_decimals_and_the_bits_of_odd_nans) {
  EXPECT_EQ(line_of<uint32_t>(ElementType::f32, {0x3dcccccd, 0x80000000, 0x7f800000, 0x7fc00000,
                                                 0x7fc00001, 0xff800001, 0x00000001, 0x7f7fffff}),
            "{0.1, -0, inf, nan, nan(0x7fc00001), nan(0xff800001), 1e-45, 3.4028235e+38}");
  EXPECT_EQ(line_of<uint64_t>(ElementType::f64, {0x3fb999999999999a, 0x7ff8000000000001, 1}),
            "{0.1, nan(0x7ff8000000000001), 5e-324}");
  EXPECT_EQ(line_of<uint16_t>(ElementType::f16, {0x2e66, 0x7bff, 0xfc00, 0x0001}),
            "{0.1, 65504, -inf, 6e-08}");
  EXPECT_EQ(line_of<uint64_t>(ElementType::u64, {~uint64_t{0}}), "{18446744073709551615}");
  EXPECT_EQ(line_of<int64_t>(ElementType::i64, {INT64_MIN, -1}), "{-9223372036854775808, -1}");
  EXPECT_EQ(line_of<uint32_t>(ElementType::c64, {0x3f800000, 0x7fc00001}),
            "{(1, nan(0x7fc00001))}");
  EXPECT_EQ(line_of<double>(ElementType::c128, {0.1, -0.0}), "{(0.1, -0)}");
  EXPECT_EQ(line_of<uint8_t>(ElementType::boolean, {1, 0}), "{true, false}");
}

TEST(LiteralText, quotes_strings_of_any_bytes) {
  Tensor tensor(ElementType::string, {4});
  tensor.elements<std::string>()[0] = std::string("a\0b\"\\", 5);
  tensor.elements<std::string>()[1] = "gr\xc3\xbc\xc3\x9f \xe2\x80\xae";  // the last reverses text
  tensor.elements<std::string>()[2] = "\xc3";
  EXPECT_EQ(literal_line(tensor),
            "{\"a\\x00b\\\"\\\\\", \"gr\xc3\xbc\xc3\x9f \\xe2\\x80\\xae\", \"\\xc3\", \"\"}");
}

TEST(LiteralText, prints_large_literals_as_hash_or_location_in_a_file) {
  Program program;
  Builder builder(program.main());
  auto mapped = std::make_shared<Literal>();
  mapped->tensor = Tensor(ElementType::f32, {400});
  mapped->file = "weights \"1\".bin";
  mapped->offset = 4096;
  mapped->bindable = true;
  builder.literal(LiteralRef(mapped), "a");
  auto computed = std::make_shared<Literal>();
  computed->tensor = Tensor(ElementType::i8, {2000});
  builder.literal(LiteralRef(computed), "b");
  const std::string text = print(program);
  EXPECT_TRUE(contains(text,
                       "%a = literal bindable f32[400] file \"weights \\\"1\\\".bin\" offset "
                       "4096\n"));
  EXPECT_TRUE(contains(text, fmt::format("%b = literal i8[2000] #{:016x}\n", computed->hash())));
  const auto again = parse_program(text, with_literals_of(program));
  EXPECT_EQ(print(*again), text);
  EXPECT_EQ(again->main().instructions().front()->literal(), mapped);
  try {
    parse_program(text);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
    EXPECT_TRUE(contains(error.message(), "is not found"));
  }
}

}  // namespace
}  // namespace lathe

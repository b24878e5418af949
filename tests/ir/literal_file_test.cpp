// SPDX-License-Identifier: MIT
#include "ir/literal_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/builder.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/support/contains.h"

namespace lathe {
namespace {

using test::contains;

// A program with two large literals, one of them strings, and a small one.
std::unique_ptr<Program> program_with_literals() {
  auto program = std::make_unique<Program>();
  Builder builder(program->main());
  Tensor numbers(ElementType::u4, {3, 1001});
  for (int64_t i = 0; i < numbers.byte_size(); ++i)
    numbers.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  numbers.as<uint8_t>()[numbers.byte_size() - 1] &= 0x0F;
  Tensor texts(ElementType::string, {500});
  for (size_t i = 0; i < 500; ++i) texts.elements<std::string>()[i] = std::string(i % 7, 'x');
  builder.literal(numbers, "numbers");
  builder.literal(texts, "texts");
  builder.literal(Tensor(ElementType::f32, {4}), "small");
  builder.literal(numbers.clone(), "twin");
  return program;
}

std::string bytes_of(const Program& program) {
  std::string bytes;
  write_literals(program, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

TEST(LiteralFile, contains_each_large_literal_once) {
  const auto program = program_with_literals();
  const std::string bytes = bytes_of(*program);
  const LiteralFile file("side", bytes, nullptr);
  EXPECT_EQ(file.size(), 2u);
  ParseOptions options;
  options.literal_by_hash = [&](uint64_t hash, const Type&) { return file.find(hash); };
  const std::string text = print(*program);
  const auto read = parse_program(text, options);
  EXPECT_EQ(print(*read), text);
  auto original = program->main().instructions().begin();
  for (const auto& instruction : read->main().instructions()) {
    EXPECT_TRUE(identical(instruction->literal()->tensor, (*original)->literal()->tensor));
    ++original;
  }
  EXPECT_EQ(file.find(1), nullptr);
}

TEST(LiteralFile, rejects_changed_bytes) {
  const auto program = program_with_literals();
  const LiteralRef numbers = program->main().instructions().front()->literal();
  std::string bytes = bytes_of(*program);
  bytes[bytes.find('\x07')] = 9;
  const LiteralFile file("side", bytes, nullptr);
  try {
    file.find(numbers->hash());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
    EXPECT_TRUE(contains(error.message(), "side: the bytes at offset"));
  }
}

TEST(LiteralFile, rejects_truncation_and_flipped_bytes_of_its_index) {
  const auto program = program_with_literals();
  const std::string bytes = bytes_of(*program);
  size_t refused = 0;
  const auto attempt = [&](const std::string& damaged) {
    try {
      const LiteralFile file("side", damaged, nullptr);
      for (const auto& instruction : program->main().instructions()) {
        file.find(instruction->literal()->hash());
      }
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
      ++refused;
    }
  };
  for (size_t size = 0; size < 300; ++size) attempt(bytes.substr(0, size));
  for (size_t at = 0; at < 128; ++at) {
    for (const int flip : {1, 0x80}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      attempt(damaged);
    }
  }
  EXPECT_GT(refused, 300u);
}

}  // namespace
}  // namespace lathe

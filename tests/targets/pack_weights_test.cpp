// SPDX-License-Identifier: MIT
// The text of a lowered program has its packed weights: plans of it pack nothing.
#if defined(__x86_64__)
#include "targets/pack_weights.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/log.h"
#include "import/load_model.h"
#include "ir/literal_file.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/session.h"
#include "targets/cpu/weight_store.h"
#include "tests/support/contains.h"
#include "tests/support/errors.h"
#include "tests/support/folder.h"
#include "tests/support/made_literals.h"

namespace lathe {
namespace {

// Weights as they are, shared by two products, transposed when the plan is made, joined with
// others, of 4 bits with scales, and of a convolution.
constexpr std::string_view kText = R"(program "net" stage imported {
  symbol b bound 1..*
  module @main(%x: f32[b, 64], %p: f32[1, 3, 9, 9]) {
    %w = literal f32[64, 320] #0000000000000001
    %v = literal f32[200, 320] #0000000000000002
    %j = literal f32[64, 320] #0000000000000003
    %c = literal u8[96, 10, 16] #0000000000000004
    %s = literal f32[96, 10] #0000000000000005
    %k = literal f32[130, 3, 3, 3] #0000000000000006
    %a = matmul(%x, %w)
    %o = matmul(%x, %j)
    %m = mul(%a, %o)
    %t = transpose(%v) {permutation = [1, 0]}
    %y = matmul(%m, %t)
    %d = relu(%x)
    %e = matmul(%d, %w)
    %n = matmul_n_bits(%e, %c, %s) {k = 320, n = 96, bits = 4, block_size = 32}
    %q = conv(%p, %k)
    return %y as "y", %n as "n", %q as "q"
  }
})";

Tensor numbers(ElementType type, Dims dims, uint64_t seed) {
  Tensor tensor(type, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const int64_t value = i * static_cast<int64_t>(2 * seed + 1) % 251;
    if (type == ElementType::u8) {
      tensor.as<uint8_t>()[i] = static_cast<uint8_t>(value);
    } else {
      tensor.as<float>()[i] = static_cast<float>(value - 125) / 128;
    }
  }
  return tensor;
}

std::unique_ptr<Program> network() { return test::parse_with_made(kText, numbers); }

CompileOptions options_of(std::string_view target) { return {.target = find_target(target)}; }

std::string bits_of(const std::shared_ptr<const Plan>& plan) {
  std::string out;
  for (const int64_t batch : {1, 7}) {
    const std::vector<Box> results =
        Session(plan).run(std::vector<Box>{Box{numbers(ElementType::f32, {batch, 64}, 8)},
                                           Box{numbers(ElementType::f32, {1, 3, 9, 9}, 9)}});
    for (const Box& box : results) {
      const Tensor dense = box.tensor().dense();
      out.append(dense.as<char>(), static_cast<size_t>(dense.byte_size()));
    }
  }
  return out;
}

class PackWeights : public testing::Test {
 protected:
  // Writes the lowered program as `inspect --stop-after lowered --literals` does.
  std::string lowered() {
    const auto program = network();
    run_pipeline(*program, options_of("cpu"));
    add_packings(*program, options_of("cpu"));
    write_literals(folder_.path("net.txt.literals"), *program);
    return folder_.write("net.txt", print(*program));
  }
  TestFolder folder_;
};

TEST_F(PackWeights, PlansOfTheTextPackNothing) {
  const std::string expected = bits_of(compile(network(), options_of("cpu")));
  const std::string path = lowered();
  const std::string text = print(*load_model(path));
  EXPECT_TRUE(test::contains(text, "= pack(%")) << text;
  EXPECT_TRUE(test::contains(text, "format = \"")) << text;
  const int64_t before = cpu::weights_packed();
  const auto plan = compile(load_model(path), options_of("cpu"));
  EXPECT_EQ(cpu::weights_packed(), before);
  EXPECT_TRUE(bits_of(plan) == expected);
  EXPECT_EQ(cpu::weights_packed(), before);
  EXPECT_FALSE(test::contains(print(*plan->program), "= pack(%"));
  // A plan without the text's packings packs.
  compile(network(), options_of("cpu"));
  EXPECT_GT(cpu::weights_packed(), before);
}

TEST_F(PackWeights, WeightsThatChangedArePackedAgain) {
  const std::string path = lowered();
  std::string text(FileMap::open(path)->text());
  const Tensor other = numbers(ElementType::f32, {64, 320}, 7);
  folder_.write("other.bin", std::string(other.as<char>(), static_cast<size_t>(other.byte_size())));
  const std::string_view literal = "%w = literal f32[64, 320] ";
  const size_t at = text.find(literal);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at + literal.size(), 17, "file \"other.bin\" offset 0");
  folder_.write("net.txt", text);
  std::vector<std::string> warnings;
  set_log_sink([&](int, std::string_view line) { warnings.emplace_back(line); });
  const int64_t before = cpu::weights_packed();
  const std::string found = bits_of(compile(load_model(path), options_of("cpu")));
  set_log_sink(nullptr);
  EXPECT_EQ(cpu::weights_packed(), before + 1);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(test::contains(warnings[0], "packing them again")) << warnings[0];
  // The edited text without packings.
  std::string plain;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!test::contains(line, "= pack(")) plain += line + "\n";
  }
  folder_.write("net.txt", plain);
  EXPECT_TRUE(found == bits_of(compile(load_model(path), options_of("cpu"))));
}

TEST_F(PackWeights, OtherTargetsReadTheSources) {
  const std::string expected = bits_of(compile(network(), options_of("ref")));
  EXPECT_TRUE(bits_of(compile(load_model(lowered()), options_of("ref"))) == expected);
}

TEST_F(PackWeights, ProgramsAreChangedOnceAndOnlyWhenLowered) {
  const auto program = network();
  add_packings(*program, options_of("cpu"));
  EXPECT_EQ(print(*program), print(*network()));
  run_pipeline(*program, options_of("cpu"));
  add_packings(*program, options_of("cpu"));
  const std::string text = print(*program);
  add_packings(*program, options_of("cpu"));
  EXPECT_EQ(print(*program), text);
}

TEST_F(PackWeights, ADamagedSideFileIsRefused) {
  const std::string path = lowered();
  const std::string side = path + ".literals";
  std::string bytes(FileMap::open(side)->text());
  // Some byte of each literal.
  int64_t refused = 0;
  for (size_t at = bytes.size() / 64; at < bytes.size(); at += bytes.size() / 32) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    folder_.write("net.txt.literals", damaged);
    const std::string error =
        error_of([&] { bits_of(compile(load_model(path), options_of("cpu"))); });
    refused += error.starts_with("InvalidModel");
    if (error != "no error") {
      EXPECT_TRUE(test::contains(error, "damaged")) << error;
    } else {
      // Nothing reads the source of packed weights.
      EXPECT_TRUE(bits_of(compile(load_model(path), options_of("cpu"))) ==
                  bits_of(compile(network(), options_of("cpu"))));
    }
  }
  EXPECT_GT(refused, 4);
}

std::string with_packed(std::string_view packed) {
  return fmt::format(R"(program "p" stage lowered {{
  module @main(%x: f32[2]) {{
    %w = literal f32[2] {{1, 2}}
    %p = pack({}
    %y = add(%x, %w) : f32[2]
    return %y as "y"
  }}
}})",
                     packed);
}

TEST(PackedText, IsReadAsItIsPrinted) {
  const std::string packed =
      R"(%w) {absent = [1], format = "a", hashes = "0"} as literal u8[3] {1, 2, 3})";
  const auto program = parse_program(with_packed(packed));
  EXPECT_TRUE(test::contains(print(*program), "%p = pack(" + packed));
  EXPECT_EQ(print(*parse_program(print(*program))), print(*program));
  // No kernel has this format; packings of values other than literals are ignored.
  for (const std::string& text : std::vector<std::string>{
           packed, R"(%x) {format = "a", hashes = "0"} as literal u8[1] {1})"}) {
    for (const char* target : {"ref", "cpu"}) {
      const Tensor x(ElementType::f32, {2});
      x.as<float>()[0] = x.as<float>()[1] = 3;
      Session session(compile(parse_program(with_packed(text)), options_of(target)));
      const std::vector<Box> results = session.run(std::vector<Box>{Box{x}});
      EXPECT_EQ(results[0].tensor().as<float>()[1], 5.0F);
    }
  }
}

TEST(PackedText, IsRefusedWithoutBytesOrFormat) {
  for (const std::string_view text :
       {R"(%w) {format = "a", hashes = "0"} as literal f32[1] {1})", R"(%w) as literal u8[1] {1})",
        R"(%w) {format = "a"} as literal u8[1] {1})", R"(%w) {hashes = "0"} as literal u8[1] {1})",
        R"(%w) {format = "a", hashes = "0"} as literal u8[1, 1] {1})"}) {
    EXPECT_TRUE(test::contains(error_of([&] { parse_program(with_packed(text)); }),
                               "packed sources are u8[bytes] with a format and hashes"))
        << text;
  }
  EXPECT_TRUE(test::contains(
      error_of([&] { parse_program(with_packed(R"(%w) {format = "a"} u8[1] {1})")); }), "'as'"));
}

TEST(PackedText, IsOfLoweredProgramsAlone) {
  std::string text = with_packed(R"(%w) {format = "a", hashes = "0"} as literal u8[1] {1})");
  parse_program(text);
  text.replace(text.find("lowered"), 7, "fused");
  EXPECT_TRUE(test::contains(error_of([&] { parse_program(text); }),
                             "only lowered programs have packed weights, 'p' is fused"));
}

}  // namespace
}  // namespace lathe
#endif

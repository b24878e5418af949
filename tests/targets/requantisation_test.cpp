// SPDX-License-Identifier: MIT
// A convolution of bytes with a dequantised residual in one launch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <utility>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

struct Case {
  int64_t batch, inputs, outputs, size, window, stride;
  std::string byte;
  bool relu;
  int zero, result_zero;
  bool twice = false;  // adds the residual again, with another scale
};

std::string integers(std::mt19937& random, int64_t count, int low, int high) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    const int value = std::uniform_int_distribution(low, high)(random);
    out += fmt::format("{}{}", i == 0 ? "" : ", ", value);
  }
  return out;
}

std::string text_of(std::mt19937& random, const Case& c) {
  const int64_t pad = c.window / 2, to = (c.size + 2 * pad - c.window) / c.stride + 1;
  const int64_t weights = c.outputs * c.inputs * c.window * c.window;
  std::string out = fmt::format(
      "program \"residual\" stage imported {{\n  module @main(%x: {0}[{1}, {2}, {3}, {3}], %r: "
      "{0}[{1}, {4}, {5}, {5}]) {{\n",
      c.byte, c.batch, c.inputs, c.size, c.outputs, to);
  out += fmt::format("    %w = literal i8[{}, {}, {}, {}] {{{}}}\n", c.outputs, c.inputs, c.window,
                     c.window, integers(random, weights, -128, 127));
  out += "    %wz = literal i8[] {0}\n    %ws = literal f32[] {0.00390625}\n";
  out += "    %xs = literal f32[] {0.0123}\n    %rs = literal f32[] {0.0321}\n";
  const double spread = 0.0123 / 256 * 74 * 60 * std::sqrt(double(weights / c.outputs)) / 40;
  out += fmt::format("    %cs = literal f32[] {{{}}}\n    %ys = literal f32[] {{{}}}\n", spread,
                     spread * 1.37);
  out += fmt::format("    %z = literal {0}[] {{{1}}}\n    %yz = literal {0}[] {{{2}}}\n", c.byte,
                     c.zero, c.result_zero);
  out += fmt::format(
      "    %c = qlinear_conv(%x, %xs, %z, %w, %ws, %wz, %cs, %z) {{pads = [{0}, {0}, {0}, {0}], "
      "strides = [{1}, {1}]}}\n",
      pad, c.stride);
  out += "    %a = dequantize_linear(%c, %cs, %z)\n    %b = dequantize_linear(%r, %rs, %yz)\n";
  out += "    %s = add(%b, %a)\n";
  std::string sum = "s";
  if (c.twice) {
    out += "    %d = dequantize_linear(%r, %xs, %z)\n    %u = add(%s, %d)\n";
    sum = "u";
  }
  if (c.relu) out += fmt::format("    %t = relu(%{})\n", std::exchange(sum, "t"));
  out += fmt::format("    %y = quantize_linear(%{}, %ys, %yz)\n    return %y as \"y\"\n  }}\n}}\n",
                     sum);
  return out;
}

Tensor random_bytes(std::mt19937& random, const Type& type) {
  Dims dims;
  for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
  Tensor tensor(type.element, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<uint8_t>()[i] = static_cast<uint8_t>(random());
  }
  return tensor;
}

TEST(Requantisation, AResidualIsAddedInTheEpilogueOfAConvolution) {
  constexpr int64_t kElements = 400;  // for one that differs
  const Case cases[] = {
      {1, 16, 32, 9, 1, 1, "u8", false, 7, 0},       {2, 64, 256, 7, 1, 1, "u8", true, 0, 0},
      {3, 20, 37, 6, 1, 1, "u8", true, 120, 40},     {1, 300, 96, 5, 1, 1, "u8", false, 3, 9},
      {2, 8, 24, 10, 3, 2, "u8", false, 11, 5},      {1, 24, 48, 8, 1, 1, "i8", true, -9, -128},
      {2, 12, 70, 8, 3, 1, "i8", false, 4, 20},      {1, 16, 40, 9, 1, 1, "u8", true, 90, 30, true},
      {1, 16, 40, 9, 1, 1, "i8", false, 5, 8, true},
  };
  std::mt19937 random(3);
  for (const Case& c : cases) {
    const std::string text = text_of(random, c);
    const auto program = parse_program(text);
    const std::vector<Box> inputs{
        Box{random_bytes(random, program->main().parameters()[0]->type())},
        Box{random_bytes(random, program->main().parameters()[1]->type())}};
    const auto plan = compile(parse_program(text), {.target = find_target("cpu")});
    ASSERT_EQ(plan->modules.front().launches.size(), 1U) << text;
    EXPECT_TRUE(plan->modules.front().launches.front().kernel->name().starts_with(
        "cpu.qlinear_conv+dequantize_linear"))
        << plan->modules.front().launches.front().kernel->name();
    Session fused(plan);
    Session reference(compile_as_written(parse_program(text)), SessionOptions{});
    const Tensor found = fused.run(inputs).at(0).tensor().dense();
    const Tensor expected = reference.run(inputs).at(0).tensor().dense();
    ASSERT_EQ(found.count(), expected.count());
    int64_t moved = 0, differing = 0;
    for (int64_t i = 0; i < found.count(); ++i) {
      const int64_t distance = std::abs(load_int(found.type(), found.data(), i) -
                                        load_int(expected.type(), expected.data(), i));
      ASSERT_LE(distance, 1) << "element " << i << " of\n" << text;
      moved += distance;
      differing +=
          load_int(found.type(), found.data(), i) != load_int(found.type(), found.data(), 0);
    }
    EXPECT_LE(moved, 1 + found.count() / kElements);
    EXPECT_GT(differing, found.count() / 4);
  }
}

// What an epilogue of bytes does not compute stays apart.
TEST(Requantisation, OtherChainsAreLeftAlone) {
  constexpr std::string_view kText = R"(program "apart" stage imported {{
  module @main(%x: u8[1, 4, 5, 5], %r: u8[1, 6, {0}, {0}]) {{
    %w = literal i8[6, 4, 1, 1] {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}}
    %wz = literal i8[] {{0}}
    %s = literal f32[] {{0.5}}
    %z = literal u8[] {{3}}
    %other = literal u8[] {{4}}
    %c = qlinear_conv(%x, %s, %z, %w, %s, %wz, %s, %z)
    %a = dequantize_linear(%c, %s, %{1})
    %b = dequantize_linear(%r, %s, %z)
    %t = {2}(%a, %b)
    %y = quantize_linear(%t, %s, %z)
    return %y as "y"
  }}
}})";
  const auto launches = [&](int size, std::string_view zero, std::string_view op) {
    const auto program = fmt::format(kText, size, zero, op);
    return compile(parse_program(program), {.target = find_target("cpu")})
        ->modules.front()
        .launches.size();
  };
  EXPECT_EQ(launches(5, "z", "add"), 1U);
  EXPECT_GT(launches(1, "z", "add"), 1U);      // a residual of another shape
  EXPECT_GT(launches(5, "other", "add"), 1U);  // another zero point
  EXPECT_GT(launches(5, "z", "mul"), 1U);
}

}  // namespace
}  // namespace lathe

// SPDX-License-Identifier: MIT
// Products of several rows with weights of few bits, which are unpacked, where there are many by
// launches of their own: types, tails, zero points, biases, epilogues, some columns after the
// others.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

struct Case {
  int64_t rows = 70;
  std::string_view type = "f32";
  int64_t bits = 4;
  int64_t block = 32;
  int64_t k = 80;
  int64_t n = 19;
  std::string_view zeros = "";  // their type
  std::string_view bias = "";
  std::string_view epilogue = "";  // of %d, to %y, with a side %s
  std::string_view compute = "";
  double tolerance = 1e-5;
};

std::string text_of(const Case& c) {
  const int64_t blocks = (c.k + c.block - 1) / c.block;
  std::string parameters =
      fmt::format("%a: {}[{}, {}], %codes: u8[{}, {}, {}], %scales: {}[{}, {}]", c.type, c.rows,
                  c.k, c.n, blocks, c.block * c.bits / 8, c.type, c.n, blocks);
  if (!c.zeros.empty()) {
    parameters += fmt::format(", %z: {}[{}, {}]", c.zeros, c.n,
                              c.zeros == "u8" ? (blocks * c.bits + 7) / 8 : blocks);
  }
  if (!c.bias.empty()) parameters += fmt::format(", %b: {}[{}]", c.bias, c.n);
  if (!c.epilogue.empty()) parameters += fmt::format(", %s: {}[{}, {}]", c.type, c.rows, c.n);
  return fmt::format(
      "program \"unpacked\" stage imported {{\n  module @main({}) {{\n"
      "    %{} = matmul_n_bits(%a, %codes, %scales, {}, _, {}) {{k = {}, n = {}, bits = {}, "
      "block_size = {}{}}}\n{}    return %y as \"y\"\n  }}\n}}",
      parameters, c.epilogue.empty() ? "y" : "d", c.zeros.empty() ? "_" : "%z",
      c.bias.empty() ? "_" : "%b", c.k, c.n, c.bits, c.block,
      c.compute.empty() ? "" : fmt::format(", compute_type = \"{}\"", c.compute), c.epilogue);
}

std::vector<Box> inputs_of(const Program& program) {
  std::vector<Box> inputs;
  float value = 0.3F;
  for (const auto& parameter : program.main().parameters()) {
    const Type& type = parameter->type();
    Dims dims;
    for (const Dim& dim : *type.dims) dims.push_back(*dim.constant());
    Tensor tensor(type.element, dims);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      value = 3.7F * value * (1 - value);
      if (type.element == ElementType::u8) {
        tensor.as<uint8_t>()[i] = static_cast<uint8_t>(value * 255);
      } else {
        store_double(type.element, tensor.data(), i, (value * 2 - 1) * 0.3);
      }
    }
    inputs.push_back(Box{tensor});
  }
  return inputs;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.dims(), expected.dims());
  double most = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    most = std::max(most, std::abs(load_double(expected.type(), expected.data(), i)));
  }
  ASSERT_GT(most, 0);
  for (int64_t i = 0; i < expected.count(); ++i) {
    ASSERT_NEAR(load_double(found.type(), found.data(), i),
                load_double(expected.type(), expected.data(), i), tolerance * most)
        << i;
  }
}

TEST(GpuUnpackedProduct, AgreesWithRef) {
  constexpr double kF16 = 4e-3;
  constexpr double kBf16 = 2e-2;
  std::vector<Case> cases{
      {},
      {.bits = 2, .zeros = "u8", .bias = "f32"},
      {.bits = 8, .block = 16, .zeros = "f32"},
      {.type = "f16", .n = 72, .zeros = "u8", .bias = "f16", .tolerance = kF16},
      {.type = "bf16",
       .bits = 8,
       .k = 64,
       .n = 16,
       .bias = "bf16",
       .epilogue = "    %y = add(%s, %d)\n",
       .tolerance = kBf16},
      {.type = "f16",
       .bits = 2,
       .k = 96,
       .bias = "f32",
       .epilogue = "    %t = mul(%d, %s)\n    %y = relu(%t)\n",
       .tolerance = kF16},
      {.type = "f16", .k = 1024, .n = 20, .zeros = "u8", .tolerance = kF16},
      {.block = 128,
       .k = 256,
       .epilogue = "    %y = add(%d, %s)\n",
       .compute = "int8",
       .tolerance = 1e-2},
      {.block = 128, .k = 700, .zeros = "u8", .bias = "f32", .compute = "int8", .tolerance = 1e-2},
      {.type = "bf16",
       .block = 128,
       .k = 1000,
       .zeros = "bf16",
       .compute = "int8",
       .tolerance = kBf16},
  };
  for (size_t i = cases.size(); i-- > 0;) {
    for (const int64_t rows : {19, 3}) {
      if (cases[i].type == "f32" && cases[i].compute.empty()) continue;
      cases.push_back(cases[i]);
      cases.back().rows = rows;
    }
  }
  for (const Case& c : cases) {
    const std::string text = text_of(c);
    SCOPED_TRACE(text);
    Session reference(compile(parse_program(text), {.target = find_target("ref")}));
    const std::vector<Box> inputs = inputs_of(*reference.plan().program);
    const Tensor expected = reference.run(inputs)[0].tensor();
    std::optional<Tensor> first;
    for (const auto& target : gpu_host_targets()) {
      Session session(compile(parse_program(text), {.target = target}));
      const Tensor found = session.run(inputs)[0].tensor();
      expect_near(found, expected, c.tolerance);
      if (first) EXPECT_TRUE(identical(*first, found));
      first = found.clone();
    }
  }
}

// Where memory is little, fewer columns are unpacked at once.
TEST(GpuUnpackedProduct, TakesSomeColumnsAfterTheOthers) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  constexpr int64_t kLimit = int64_t{8} << 20;  // 128 KiB unpacked, of 256 columns
  const auto target = std::make_shared<GpuTarget>("gpu:host", gpu::make_host_driver({}), kLimit,
                                                  gpu::CodeStore::default_folder());
  const Case c{
      .block = 16, .k = 128, .n = 600, .bias = "f32", .epilogue = "    %y = add(%d, %s)\n"};
  const std::string text = text_of(c);
  Session reference(compile(parse_program(text), {.target = find_target("ref")}));
  Session session(compile(parse_program(text), {.target = target}));
  const std::vector<Box> inputs = inputs_of(*reference.plan().program);
  expect_near(session.run(inputs)[0].tensor(), reference.run(inputs)[0].tensor(), 1e-5);
}

}  // namespace
}  // namespace lathe::test

// SPDX-License-Identifier: MIT
// A decoder's feed-forward block in two launches: normalised rows, two products with their SwiGLU,
// and a product with its residual; by each kernel.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

constexpr int64_t kDepth = 320;
constexpr int64_t kInner = 37;

struct Case {
  std::string_view type;
  std::string_view norm;  // the instruction
  bool coded = false;     // weights of 4 bits
  bool along_depth = true;
  double tolerance = 1e-4;  // relative to the largest
  std::string_view compute = "f32";
  int64_t block = 32;
};

std::string weights_of(const Case& c, std::string_view name) {
  if (c.coded) {
    return fmt::format("%{0}: u8[{1}, {2}, {4}], %{0}s: {3}[{1}, {2}]", name, kInner,
                       (kDepth + c.block - 1) / c.block, c.type, c.block / 2);
  }
  return c.along_depth ? fmt::format("%{}: {}[{}, {}]", name, c.type, kInner, kDepth)
                       : fmt::format("%{}: {}[{}, {}]", name, c.type, kDepth, kInner);
}

std::string product_of(const Case& c, std::string_view result, std::string_view weights) {
  if (c.coded) {
    return fmt::format(
        "    %{0} = matmul_n_bits(%n, %{1}, %{1}s) {{k = {2}, n = {3}, bits = 4, block_size = {5}, "
        "compute_type = \"{4}\"}}\n",
        result, weights, kDepth, kInner, c.compute, c.block);
  }
  if (!c.along_depth) return fmt::format("    %{} = matmul(%n, %{})\n", result, weights);
  return fmt::format(
      "    %{1}t = transpose(%{1}) {{permutation = [1, 0]}}\n    %{0} = matmul(%n, %{1}t)\n",
      result, weights);
}

std::string text_of(const Case& c) {
  return fmt::format(
      "program \"block\" stage imported {{\n  symbol m bound 1..*\n  module @main(%x: {0}[m, {1}], "
      "%g: {0}[{1}], %b: {0}[{1}], {2}, {3}, %down: {0}[{4}, {1}]) {{\n    {5}\n{6}{7}"
      "    %h = swiglu(%gate, %up)\n    %d = matmul(%h, %down)\n    %y = add(%x, %d)\n"
      "    return %y as \"y\"\n  }}\n}}",
      c.type, kDepth, weights_of(c, "wg"), weights_of(c, "wu"), kInner, c.norm,
      product_of(c, "gate", "wg"), product_of(c, "up", "wu"));
}

Box filled(const Type& type, int64_t m, float& value) {
  Dims dims;
  for (const Dim& dim : *type.dims) dims.push_back(dim.constant().value_or(m));
  Tensor tensor(type.element, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    value = 3.7F * value * (1 - value);
    if (type.element == ElementType::u8) {
      tensor.as<uint8_t>()[i] = static_cast<uint8_t>(value * 255);
    } else {
      store_double(type.element, tensor.data(), i, (value * 2 - 1) * 0.3);
    }
  }
  return Box{tensor};
}

constexpr std::string_view kRms = "%n, %i = simplified_layer_normalization(%x, %g)";
constexpr std::string_view kPlain = "%n = rms_normalization(%x, %g)";
constexpr std::string_view kLayer = "%n, %mean, %i = layer_normalization(%x, %g, %b)";

TEST(GpuFusedProducts, AgreeWithRefInTwoLaunches) {
  const std::vector<Case> cases{{"f32", kRms},
                                {"f32", kLayer, false, false},
                                {"bf16", kLayer, false, true, 2e-2},
                                {"f16", kPlain, false, true, 4e-3},
                                {"f16", kRms, true, true, 4e-3},
                                {"f32", kRms, true, true, 1e-2, "int8"},
                                {"f16", kPlain, true, true, 1e-2, "int8", 128}};
  for (const Case& c : cases) {
    const std::string text = text_of(c);
    SCOPED_TRACE(text);
    Session reference(compile(parse_program(text), {.target = find_target("ref")}));
    struct Rows {
      int64_t m = 0;
      std::vector<Box> inputs{};
      Tensor expected{};
      std::optional<Tensor> first{};  // found
    };
    std::array<Rows, 3> sizes{{{1}, {5}, {67}}};
    for (Rows& rows : sizes) {
      float value = 0.3F;
      for (const auto& parameter : reference.plan().program->main().parameters()) {
        rows.inputs.push_back(filled(parameter->type(), rows.m, value));
      }
      rows.expected = reference.run(rows.inputs)[0].tensor().clone();
    }
    for (const auto& target : gpu_host_targets()) {
      Session session(compile(parse_program(text), {.target = target}));
      std::vector<std::string> kernels;
      for (const Launch& launch : session.plan().modules[0].launches) {
        if (launch.kernel == nullptr) continue;
        const std::string_view name = launch.kernel->name();
        const bool moves = name == "gpu.transpose" || name == "gpu.copy";
        if (!moves && launch.kind == LaunchKind::kernel) kernels.emplace_back(name);
      }
      const std::string norm(c.norm.substr(c.norm.find('=') + 2));
      const std::string product = c.coded ? "matmul_n_bits" : "matmul";
      EXPECT_EQ(
          kernels,
          (std::vector<std::string>{
              fmt::format("gpu.{}+{}+{}+swiglu", norm.substr(0, norm.find('(')), product, product),
              "gpu.matmul+add"}));
      for (Rows& rows : sizes) {
        SCOPED_TRACE(rows.m);
        const Tensor& expected = rows.expected;
        double most = 0;
        for (int64_t i = 0; i < expected.count(); ++i) {
          most = std::max(most, std::abs(load_double(expected.type(), expected.data(), i)));
        }
        const Tensor found = session.run(rows.inputs)[0].tensor();
        ASSERT_EQ(found.dims(), expected.dims());
        for (int64_t i = 0; i < expected.count(); ++i) {
          ASSERT_NEAR(load_double(found.type(), found.data(), i),
                      load_double(expected.type(), expected.data(), i), c.tolerance * most)
              << i;
        }
        if (rows.first) EXPECT_TRUE(identical(*rows.first, found));
        rows.first = found.clone();
      }
    }
  }
}

// Rows of a batch are normalised as they are alone.
TEST(GpuNorms, BitsDoNotDependOnTheNumberOfRows) {
  constexpr int64_t kRows = 200;
  for (const int64_t columns : {100, 1000, 5000}) {
    for (const std::string_view norm :
         {"%y = rms_normalization(%x, %g)", "%y, %mean, %i = layer_normalization(%x, %g)"}) {
      const std::string text = fmt::format(
          "program \"norm\" stage imported {{\n  symbol m bound 1..*\n  module @main(%x: f32[m, "
          "{0}], %g: f32[{0}]) {{\n    {1}\n    return %y as \"y\"\n  }}\n}}",
          columns, norm);
      Session session(compile(parse_program(text), {.target = gpu_host_targets()[0]}));
      float value = 0.3F;
      const Type rows = Type::tensor(ElementType::f32, {Dim(kRows), Dim(columns)});
      const Box x = filled(rows, kRows, value);
      const Box g = filled(Type::tensor(ElementType::f32, {Dim(columns)}), 1, value);
      const Tensor all = session.run(std::vector<Box>{x, g})[0].tensor().clone();
      for (const int64_t row : {0, 117}) {
        Tensor one(ElementType::f32, {1, columns});
        std::copy_n(x.tensor().as<float>() + row * columns, columns, one.as<float>());
        const Tensor alone = session.run(std::vector<Box>{Box{one}, g})[0].tensor();
        EXPECT_EQ(std::memcmp(alone.data(), all.as<float>() + row * columns,
                              static_cast<size_t>(columns) * sizeof(float)),
                  0)
            << text << ", row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test

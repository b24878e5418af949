// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cmath>

#include "base/os_code_memory.h"
#include "base/thread_pool.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
namespace {

// Runs main on both targets and compares: exactly, or within a bound. Returns the CPU's plan.
std::shared_ptr<const Plan> compare(std::string_view body, std::span<const Box> inputs,
                                    float bound = 0) {
  const std::string text =
      fmt::format("program \"rows\" stage imported {{\n  symbol n bound 1..*\n{}\n}}", body);
  const auto plan = compile(parse_program(text), {.target = find_target("cpu")});
  Session reference(compile(parse_program(text), {.target = find_target("ref")}));
  ThreadPool pool(2);
  Session session(plan, {.pool = &pool, .warn = {}});
  const std::vector<Box> expected = reference.run(inputs), found = session.run(inputs);
  for (size_t r = 0; r < found.size(); ++r) {
    const auto a = found[r].tensor().elements<float>(), b = expected[r].tensor().elements<float>();
    EXPECT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], bound * (1 + std::abs(b[i])));
  }
  return plan;
}

Box waves(Dims dims, float step) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = 3 * std::sin(step * static_cast<float>(i));
  }
  return Box{tensor};
}

std::string_view kernel_of(const Plan& plan, std::string_view op) {
  for (const Launch& launch : plan.modules.front().launches) {
    if (launch.instruction->op().name == op) return launch.kernel->name();
  }
  return "none";
}

TEST(Rows, NormalisesWithTheSumAndTheFactor) {
  const std::vector<Box> inputs = {waves({3, 50, 70}, 0.3F), waves({3, 50, 70}, 0.7F)};
  const auto plan = compare(R"(
  module @main(%x: f32[n, 50, 70], %s: f32[n, 50, 70]) {
    %i = literal i64[1] {0}
    %g = literal f32[70] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
    %a, %m, %f, %t = skip_simplified_layer_normalization(%x, %s, %g) {epsilon = 1e-5}
    %b, %m2, %f2 = layer_normalization(%t, %g, %g)
    return %a as "a", %f as "f", %t as "t", %b as "b", %m2 as "m2", %f2 as "f2"
  })",
                            inputs, 2e-5F);
  EXPECT_EQ(kernel_of(*plan, "skip_simplified_layer_normalization"),
            "cpu.skip_simplified_layer_normalization");
  EXPECT_EQ(kernel_of(*plan, "layer_normalization"), "cpu.layer_normalization");
}

TEST(Rows, NormalisesOverSeveralAxes) {
  compare(R"(
  module @main(%x: f32[n, 5, 7], %g: f32[5, 7]) {
    %a = rms_normalization(%x, %g) {axis = 1}
    return %a as "a"
  })",
          std::vector<Box>{waves({4, 5, 7}, 0.3F), waves({5, 7}, 0.9F)}, 2e-5F);
}

TEST(Rows, TellsColumnsFromRows) {
  const auto plan = compare(
      R"(
  module @main(%x: f32[2, 4, 4], %g: f32[4, 1], %h: f32[1, 1, 4]) {
    %a = rms_normalization(%x, %g)
    %b, %m, %f = layer_normalization(%x, %h, %g)
    return %a as "a", %b as "b"
  })",
      std::vector<Box>{waves({2, 4, 4}, 0.3F), waves({4, 1}, 0.9F), waves({1, 1, 4}, 0.7F)}, 2e-5F);
  EXPECT_EQ(kernel_of(*plan, "rms_normalization"), "cpu.rms_normalization");
  EXPECT_EQ(kernel_of(*plan, "layer_normalization"), "none");
}

TEST(Rows, ExpandsUnsupportedNormalisations) {
  // A scale per element of x.
  const auto plan = compare(R"(
  module @main(%x: f32[2, 3], %g: f32[2, 3]) {
    %a = rms_normalization(%x, %g)
    return %a as "a"
  })",
                            std::vector<Box>{waves({2, 3}, 0.3F), waves({2, 3}, 0.9F)}, 2e-5F);
  EXPECT_EQ(kernel_of(*plan, "rms_normalization"), "none");
}

// The kernels that compute.
std::vector<std::string> computing(const Plan& plan) {
  std::vector<std::string> names;
  for (const Launch& launch : plan.modules.front().launches) {
    const std::string name(launch.kernel->name());
    if (name.starts_with("cpu.") && name != "cpu.reshape") names.push_back(name);
  }
  return names;
}

// With generated code, and where the system refuses executable memory.
void expect_kernels(std::string_view body, std::span<const Box> inputs,
                    const std::vector<std::string>& kernels) {
  EXPECT_EQ(computing(*compare(body, inputs, 2e-5F)), kernels);
  refuse_code_memory(true);
  compare(body, inputs, 2e-5F);
  refuse_code_memory(false);
}

TEST(Rows, HaveUnknownSizesAndFactorsOfTheirOwn) {
  expect_kernels(R"(
  module @main(%x: f32[2, 3, n], %g: f32[3, 1], %h: f32[2, 1, 1], %r: f32[n]) {
    %a, %m, %f = layer_normalization(%x, %g, %h)
    %b = rms_normalization(%x, %r)
    return %a as "a", %b as "b"
  })",
                 std::vector<Box>{waves({2, 3, 37}, 0.3F), waves({3, 1}, 0.9F),
                                  waves({2, 1, 1}, 0.4F), waves({37}, 0.2F)},
                 {"cpu.layer_normalization", "cpu.rms_normalization"});
}

TEST(Rows, OfPlanesAndGroupsAreOnePassEach) {
  const std::vector<Box> inputs{waves({2, 6, 5, 9}, 0.3F), waves({6}, 0.9F), waves({6}, 0.4F)};
  expect_kernels(R"(
  module @main(%x: f32[n, 6, 5, 9], %g: f32[6], %h: f32[6]) {
    %a = instance_normalization(%x, %g, %h)
    return %a as "a"
  })",
                 inputs, {"cpu.layer_normalization"});
  expect_kernels(R"(
  module @main(%x: f32[n, 6, 5, 9], %g: f32[6], %h: f32[6]) {
    %a = group_normalization(%x, %g, %h) {num_groups = 2}
    %b = relu(%a)
    return %b as "b"
  })",
                 inputs, {"cpu.layer_normalization", "cpu.mul+add+relu"});
}

TEST(Rows, HaveTheLogarithmOfSoftmax) {
  expect_kernels(R"(
  module @main(%x: f32[n, 7, 53]) {
    %a = log_softmax(%x)
    return %a as "a"
  })",
                 std::vector<Box>{waves({2, 7, 53}, 0.3F)}, {"cpu.log_softmax"});
}

TEST(Rows, AlongOtherAxesAreOneKernel) {
  expect_kernels(R"(
  module @main(%x: f32[n, 7, 83]) {
    %a = softmax(%x) {axis = 1}
    %b = log_softmax(%x) {axis = 0}
    return %a as "a", %b as "b"
  })",
                 std::vector<Box>{waves({2, 7, 83}, 0.3F)}, {"cpu.softmax", "cpu.log_softmax"});
}

TEST(Rows, ElementsHaveTheReferencesBits) {
  const std::vector<Box> inputs = {waves({33, 5, 130}, 0.3F), waves({5, 130}, 0.7F),
                                   waves({33, 5, 1}, 0.2F)};
  const auto plan = compare(R"(
  module @main(%x: f32[n, 5, 130], %r: f32[5, 130], %c: f32[n, 5, 1]) {
    %a = add(%x, %r)
    %b = mul(%r, %x)
    %d = sub(%x, %c)
    %e = mul(%a, %b)
    %f = swiglu(%e, %d)
    %g = sigmoid(%x)
    %h = gelu(%x) {approximate = "tanh"}
    %i = swish(%x)
    %j = tanh(%x)
    %k = relu(%x)
    %l = gelu(%x)
    return %f as "f", %g as "g", %h as "h", %i as "i", %j as "j", %k as "k", %l as "l", %a as "a", %d as "d"
  })",
                            inputs);
  for (const std::string op : {"add", "gelu", "relu", "sigmoid", "sub", "tanh"}) {
    EXPECT_EQ(kernel_of(*plan, op), "cpu." + op);
  }
  EXPECT_EQ(kernel_of(*plan, "region"), "cpu.mul+mul+swiglu");
}

}  // namespace
}  // namespace lathe
#endif

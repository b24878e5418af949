// SPDX-License-Identifier: MIT
// Compute types f16 and bf16: what lies between launches has that type too.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

// A convolution with its activation, pooling, a product, attention's parts with a mask of the
// lowest f32, a normalisation.
constexpr const char* kProgram = R"(
program "mixed" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 2, 4, 4], %mask: f32[n, 4, 4]) {
    %w = literal f32[3, 2, 3, 3] {0.5, -0.25, 0.125, 0.3, -0.7, 0.2, 0.1, 0.4, -0.3,
      0.2, 0.1, -0.5, 0.6, 0.3, -0.2, 0.25, 0.15, 0.35, -0.4, 0.5, 0.3, 0.2, -0.1, 0.6, 0.7, -0.3,
      0.2, 0.1, 0.2, 0.3, -0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 0.2, -0.3, 0.4, 0.5, 0.1, 0.2, -0.2, 0.3,
      0.6, 0.4, 0.3, 0.2, 0.1, -0.1, -0.2, -0.3, 0.5, 0.2}
    %c = conv(%x, %w) {pads = [1, 1, 1, 1]}
    %r = relu(%c)
    %p, %places = max_pool(%r) {kernel_shape = [2, 2], strides = [2, 2]}
    %shape = literal i64[3] {0, 3, 4}
    %t = reshape(%p, %shape)
    %u = transpose(%t) {permutation = [0, 2, 1]}
    %m = matmul(%u, %t)
    %s = add(%m, %mask)
    %a = softmax(%s)
    %y = matmul(%a, %u)
    %g = literal f32[3] {1, 0.5, 2}
    %b = literal f32[3] {0.1, -0.2, 0.3}
    %z, %mean, %deviation = layer_normalization(%y, %g, %b)
    return %z as "z", %r as "r"
  }
})";

std::vector<Box> inputs(int64_t n) {
  Tensor x(ElementType::f32, {n, 2, 4, 4});
  float value = 0.2F;
  for (float& e : x.elements<float>()) {
    value = value * 3.7F * (1 - value);
    e = value * 2 - 1;
  }
  Tensor mask(ElementType::f32, {n, 4, 4});
  for (int64_t i = 0; i < mask.count(); ++i) {
    mask.as<float>()[i] = i % 4 > 2 ? -3.4028235e38F : 0.0F;
  }
  return {Box{x}, Box{mask}};
}

TEST(GpuCompute, SixteenBitFloatsStayNearF32) {
  Session reference(compile(parse_program(kProgram), {.target = find_target("ref")}));
  for (const auto& target : gpu_host_targets()) {
    for (const Compute compute : {Compute::f16, Compute::bf16}) {
      CompileOptions options{.target = target};
      options.compute = compute;
      Session session(lathe::compile(parse_program(kProgram), options));
      for (const int64_t n : {1, 3}) {
        const std::vector<Box> expected = reference.run(inputs(n));
        const std::vector<Box> found = session.run(inputs(n));
        for (size_t i = 0; i < expected.size(); ++i) {
          const Tensor& a = expected[i].tensor();
          const Tensor& b = found[i].tensor();
          ASSERT_EQ(b.type(), ElementType::f32);
          float most = 0;
          for (const float x : a.elements<float>()) most = std::max(most, std::abs(x));
          for (int64_t at = 0; at < a.count(); ++at) {
            EXPECT_NEAR(a.as<float>()[at], b.as<float>()[at],
                        (compute == Compute::f16 ? 1e-2F : 5e-2F) * most)
                << to_string(compute) << " result " << i << " element " << at;
          }
        }
      }
      const ElementType type = compute == Compute::f16 ? ElementType::f16 : ElementType::bf16;
      int narrow = 0;
      for (const Slot& slot : session.plan().modules[0].slots) {
        narrow += slot.kind == SlotKind::arena && slot.type == type ? 1 : 0;
      }
      EXPECT_GE(narrow, 5) << to_string(compute);
    }
  }
}

TEST(GpuCompute, OtherTargetsRefuseF16) {
  CompileOptions options{.target = find_target("ref")};
  options.compute = Compute::f16;
  try {
    lathe::compile(parse_program(kProgram), options);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("use f32 or bf16, or a GPU"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lathe::test

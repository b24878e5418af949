// SPDX-License-Identifier: MIT
// Products of several tiles of rows, columns and depth, with tails, by the portable kernel.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

constexpr const char* kProgram = R"(
program "tiles" stage imported {
  symbol m bound 1..*
  module @main(%a: f32[m, 43], %b: f32[43, 70]) {
    %y = matmul(%a, %b)
    return %y as "y"
  }
})";

TEST(GpuProducts, TilesHaveAnyNumberAndTails) {
  Session reference(compile(parse_program(kProgram), {.target = find_target("ref")}));
  for (const int64_t m : {1, 67}) {
    Tensor a(ElementType::f32, {m, 43});
    Tensor b(ElementType::f32, {43, 70});
    float value = 0.3F;
    for (float& x : a.elements<float>()) x = value = 3.7F * value * (1 - value);
    for (float& x : b.elements<float>()) x = value = 3.7F * value * (1 - value);
    const std::vector<Box> inputs{Box{a}, Box{b}};
    const Tensor expected = reference.run(inputs)[0].tensor();
    for (const auto& target : gpu_host_targets()) {
      Session session(compile(parse_program(kProgram), {.target = target}));
      const Tensor found = session.run(inputs)[0].tensor();
      ASSERT_EQ(found.dims(), expected.dims());
      for (int64_t i = 0; i < expected.count(); ++i) {
        EXPECT_NEAR(found.as<float>()[i], expected.as<float>()[i], 1e-4F) << i;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test

// SPDX-License-Identifier: MIT
// What the host computes beside the device.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

// The host reads what two instructions compute of a shape.
constexpr const char* kShapes = R"(
program "shapes" stage imported {
  symbol a found 0..*
  symbol b found 0..*
  module @main(%x: f32[5, 4], %size: i64[2]) {
    %two = literal i64[2] {2, 2}
    %one = literal i64[2] {1, 1}
    %more = max(%size, %two)
    %ends = sub(%more, %one)
    %starts = literal i64[2] {0, 0}
    %y = slice(%x, %starts, %ends) found a, b
    return %y as "y"
  }
})";

TEST(GpuPlacement, TheHostComputesShapes) {
  Tensor x(ElementType::f32, {5, 4});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i);
  Tensor size(ElementType::i64, {2});
  std::ranges::copy(std::array<int64_t, 2>{3, 1}, size.as<int64_t>());
  const std::vector<Box> inputs{Box{x}, Box{size}};
  for (const auto& target : gpu_host_targets()) {
    Session session(compile(parse_program(kShapes), {.target = target}));
    const std::vector<Box> results = session.run(inputs);
    const Tensor& y = results[0].tensor();
    ASSERT_EQ(y.dims(), (Dims{2, 1}));
    EXPECT_EQ(std::vector<float>(y.as<float>(), y.as<float>() + 2), (std::vector<float>{0, 4}));
  }
}

}  // namespace
}  // namespace lathe::test

// SPDX-License-Identifier: MIT
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cstring>

#include "base/os_code_memory.h"
#include "codegen/kernel.h"
#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {
namespace {

constexpr std::string_view kRegion = R"(program "region" stage imported {
  symbol n bound 1..*
  module @main(%x: f32[n, 40], %c: f32[40], %r: f32[n, 1]) {
    %a = mul(%x, %c)
    %b = add(%a, %r)
    %y = abs(%b)
    return %y as "y"
  }
})";

Tensor counted(Dims dims) {
  Tensor tensor(ElementType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(i % 23 - 11) / 7;
  }
  return tensor;
}

Tensor result() {
  const auto plan = compile(parse_program(kRegion), {.target = find_target("cpu")});
  Session session(plan);
  return session
      .run(std::vector<Box>{Box{counted({5, 40})}, Box{counted({40})}, Box{counted({5, 1})}})
      .at(0)
      .tensor();
}

TEST(GeneratedElementwise, HasTheBitsOfTheInterpreterWhereExecutableMemoryIsRefused) {
  const Tensor generated = result();
  refuse_code_memory(true);
  const Tensor interpreted = result();
  refuse_code_memory(false);
  ASSERT_EQ(generated.count(), 200);
  EXPECT_EQ(std::memcmp(generated.data(), interpreted.data(), 800), 0);
}

}  // namespace
}  // namespace lathe
#endif

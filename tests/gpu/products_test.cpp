// SPDX-License-Identifier: MIT
// Products with tails by each portable kernel: tiles of FMA and of fragments, few rows; operands
// along the depth or across it, split depths, epilogues.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tensor/convert.h"
#include "tests/support/gpu_host_target.h"

namespace lathe::test {
namespace {

struct Case {
  std::string_view type;
  bool along_depth = false;  // columns of b
  int64_t n = 0;
  int64_t k = 0;
  double tolerance = 1e-4;  // relative to the largest
};

std::unique_ptr<Program> program_of(const Case& c) {
  return parse_program(
      fmt::format("program \"product\" stage imported {{\n  symbol m bound 1..*\n"
                  "  module @main(%a: {0}[m, {2}], %b: {0}[{3}], %c: {0}[{1}]) {{\n"
                  "    %p = gemm(%a, %b, %c) {{trans_b = {4}}}\n    %y = relu(%p)\n"
                  "    return %y as \"y\"\n  }}\n}}",
                  c.type, c.n, c.k,
                  c.along_depth ? fmt::format("{}, {}", c.n, c.k) : fmt::format("{}, {}", c.k, c.n),
                  c.along_depth));
}

Tensor filled(ElementType type, Dims dims, float& value) {
  Tensor tensor(type, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    value = 3.7F * value * (1 - value);
    store_double(type, tensor.data(), i, value * 2 - 1);
  }
  return tensor;
}

TEST(GpuProducts, EveryKernelAgreesWithRef) {
  const std::vector<Case> cases{{"f32", false, 70, 43},
                                {"f32", true, 37, 300},
                                {"f16", true, 37, 1048, 4e-3},
                                {"bf16", false, 72, 200, 3e-2}};
  for (const Case& c : cases) {
    Session reference(compile(program_of(c), {.target = find_target("ref")}));
    const ElementType type = reference.plan().program->main().parameters()[0]->type().element;
    for (const int64_t m : {1, 5, 67}) {
      SCOPED_TRACE(fmt::format("{} {} x {} x {}", c.type, m, c.n, c.k));
      float value = 0.3F;
      const Tensor a = filled(type, {m, c.k}, value);
      const Tensor b = filled(type, c.along_depth ? Dims{c.n, c.k} : Dims{c.k, c.n}, value);
      const std::vector<Box> inputs{Box{a}, Box{b}, Box{filled(type, {c.n}, value)}};
      const Tensor expected = reference.run(inputs)[0].tensor();
      double most = 0;
      for (int64_t i = 0; i < expected.count(); ++i) {
        most = std::max(most, load_double(type, expected.data(), i));
      }
      std::optional<Tensor> first;
      for (const auto& target : gpu_host_targets()) {
        Session session(compile(program_of(c), {.target = target}));
        const Tensor found = session.run(inputs)[0].tensor();
        ASSERT_EQ(found.dims(), expected.dims());
        for (int64_t i = 0; i < expected.count(); ++i) {
          ASSERT_NEAR(load_double(type, found.data(), i), load_double(type, expected.data(), i),
                      c.tolerance * most)
              << i;
        }
        if (first) EXPECT_TRUE(identical(*first, found));
        first = found.clone();
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test

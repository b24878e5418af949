// SPDX-License-Identifier: MIT
#include "tests/import/onnx/import_support.h"

namespace lathe {
namespace {

using namespace test;
using Floats = std::vector<float>;

constexpr std::string_view kNested = R"(<opset_import: ["" : 18]>
    g (float[2] x, float[2] y, bool c, bool d) => (float[2] out) <float[1] two = {2}> {
      s = Add(x, y)
      out = If(c) <
        then_branch = t () => (float[2] r) {
          r = If(d) <then_branch = tt () => (float[2] p) { p = Mul(s, two) },
                     else_branch = tf () => (float[2] q) { q = Sub(s, y) }>
        },
        else_branch = f () => (float[2] n) { n = Neg(x) }>
    })";

TEST(Subgraphs, MakeCapturedValuesOperands) {
  const auto program = import_text(kNested);
  const Instruction& outer = *program->main().instructions().back();
  EXPECT_EQ(outer.op().name, "if");
  std::vector<std::string> operands;
  for (const Value* operand : outer.operands()) operands.push_back(operand->name());
  EXPECT_EQ(operands, (std::vector<std::string>{"c", "d", "s", "y", "x"}));
  for (const Module* body : outer.bodies()) EXPECT_EQ(body->parameters().size(), 4);
}

TEST(Subgraphs, RepeatLiteralsInsideInsteadOfCapturingThem) {
  const auto program = import_text(kNested);
  const Instruction& outer = *program->main().instructions().back();
  const Instruction& inner = *outer.bodies()[0]->instructions().back();
  EXPECT_NE(inner.bodies()[0]->instructions().front()->literal(), nullptr);
}

TEST(Subgraphs, RunNestedBranches) {
  const auto run = [&](bool c, bool d) {
    return run_floats(kNested,
                      {floats({2}, {1, 2}), floats({2}, {10, 20}), boolean(c), boolean(d)});
  };
  EXPECT_EQ(run(true, true), (Floats{22, 44}));
  EXPECT_EQ(run(true, false), (Floats{1, 2}));
  EXPECT_EQ(run(false, true), (Floats{-1, -2}));
}

TEST(Subgraphs, ImportOnlyTheBranchOfAConstantCondition) {
  const auto program = import_text(R"(<opset_import: ["" : 18]>
      g (float[1, 3] x) => (float[3] out) <int64[1] one = {1}, int64[1] zero = {0}> {
        shape = Shape(x)
        rows = Gather(shape, zero)
        c = Equal(rows, one)
        out = If(c) <then_branch = t () => (float[3] r) { r = Squeeze(x, zero) },
                     else_branch = f () => (float[3] n) { n = Squeeze(x, one) }>
      })");
  EXPECT_EQ(program->modules().size(), 1);
  EXPECT_EQ(program->main().results()[0]->type().to_string(), "f32[3]");
}

TEST(Subgraphs, LoopWithCarriedScannedAndCapturedValues) {
  const auto results = run_text(R"(<opset_import: ["" : 18]>
      g (int64 n, float[2] start, float[2] step) => (float[2] last, float[k, 2] all) {
        last, all = Loop(n, , start) <body = b (int64 i, bool c, float[2] v)
                                          => (bool c2, float[2] next, float[2] seen) {
          c2 = Identity(c)
          next = Add(v, step)
          seen = Identity(next)
        }>
      })",
                                {integers({}, {3}), floats({2}, {0, 1}), floats({2}, {1, 10})});
  EXPECT_EQ(values_of(results[0]), (Floats{3, 31}));
  EXPECT_EQ(values_of(results[1]), (Floats{1, 11, 2, 21, 3, 31}));
}

TEST(Subgraphs, LoopsMayCountInVectorsOfOneElement) {
  const auto results = run_text(R"(<opset_import: ["" : 9]>
      g (float[3] x, int64 n, float[1] start) => (float[1] sum) {
        sum = Loop(n, , start) <body = b (int64[1] i, bool[1] c, float[1] s)
                                     => (bool[1] go, float[1] t) {
          go = Identity(c)
          e = Gather(x, i)
          t = Add(s, e)
        }>
      })",
                                {floats({3}, {1, 2, 4}), integers({}, {3}), floats({1}, {10})});
  EXPECT_EQ(values_of(results[0]), (Floats{17}));
}

TEST(Subgraphs, ScanAlongAnotherAxisBackwards) {
  const auto results = run_text(R"(<opset_import: ["" : 18]>
      g (float[2] start, float[2, 3] x) => (float[2] sum, float[2, 3] sums) {
        sum, sums = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                         scan_output_axes = [1], scan_output_directions = [1],
                         body = b (float[2] s, float[2] e) => (float[2] t, float[2] u) {
          t = Add(s, e)
          u = Identity(t)
        }>(start, x)
      })",
                                {floats({2}, {0, 0}), floats({2, 3}, {1, 2, 3, 10, 20, 30})});
  EXPECT_EQ(values_of(results[0]), (Floats{6, 60}));
  EXPECT_EQ(values_of(results[1]), (Floats{6, 5, 3, 60, 50, 30}));
}

// The example of the operator's documentation: a running sum, here over a batch of two.
TEST(Subgraphs, ScanOfOpset8HasABatch) {
  const auto results =
      run_text(R"(<opset_import: ["" : 8]>
      g (float[2, 1] start, float[2, 3, 1] x, float[1] k) => (float[2, 1] sum, float[2, 3, 1] all) {
        sum, all = Scan<num_scan_inputs = 1, body = b (float[1] s, float[1] e)
                                                 => (float[1] t, float[1] u) {
          m = Mul(e, k)
          t = Add(s, m)
          u = Identity(t)
        }>("", start, x)
      })",
               {floats({2, 1}, {0, 100}), floats({2, 3, 1}, {1, 2, 3, 4, 5, 6}), floats({1}, {2})});
  EXPECT_EQ(values_of(results[0]), (Floats{12, 130}));
  EXPECT_EQ(values_of(results[1]), (Floats{2, 6, 12, 108, 118, 130}));
}

TEST(Subgraphs, SequenceMapPairsItemsAndKeepsTensors) {
  const auto results =
      run_text(R"(<opset_import: ["" : 18]>
      g (float[1] a, float[2] b, float k, float m) => (seq(float[?]) out) {
        s = SequenceConstruct(a, b)
        out = SequenceMap<body = f (float[n] v, float w) => (float[n] r) {
          p = Mul(v, w)
          r = Add(p, m)
        }>(s, k)
      })",
               {floats({1}, {1}), floats({2}, {2, 3}), floats({}, {10}), floats({}, {0.5F})});
  ASSERT_EQ(results[0].sequence().size(), 2);
  EXPECT_EQ(values_of(results[0].sequence()[0]), (Floats{10.5F}));
  EXPECT_EQ(values_of(results[0].sequence()[1]), (Floats{20.5F, 30.5F}));
}

// Type inference reaches a fixed point in every body; the work must not double with each level.
TEST(Subgraphs, NestedLoopsCostNoMoreThanTheirSum) {
  std::string inner = "x_out = Concat<axis = 0>(x_24, x_24)";
  for (int level = 24; level > 0; --level) {
    inner = fmt::format(
        R"(x_out = Loop(n, , x_{0}) <body = b_{1} (int64 i_{1}, bool c_{1}, float[?] x_{1})
               => (bool c_out, float[?] x_out) {{ c_out = Identity(c_{1})
                                                  {2} }}>)",
        level - 1, level, inner);
  }
  const auto program = import_text(fmt::format(
      R"(<opset_import: ["" : 18]> g (int64 n, float[2] x_0) => (float[?] x_out) {{ {} }})",
      inner));
  EXPECT_EQ(program->main().results()[0]->type().rank(), 1);
}

TEST(Subgraphs, KeepNoConditionOnTheSizesOfTheFirstIteration) {
  constexpr std::string_view kText = R"(<opset_import: ["" : 22]>
      g (int64 n, float[2] x) => (float[k] y) <float[1] one = {1.0}, int64[1] three = {3}> {
        y = Loop(n, , x) <body = b (int64 i, bool go, float[m] v) => (bool go2, float[k] w) {
          go2 = Identity(go)
          longer = Concat <axis = 0> (v, one)
          count = Add(three, i)
          ones = Expand(one, count)
          w = Add(longer, ones)
        }>
      })";
  EXPECT_EQ(run_floats(kText, {integers({}, {3}), floats({2}, {0, 10})}), (Floats{3, 13, 4, 3, 2}));
}

}  // namespace
}  // namespace lathe

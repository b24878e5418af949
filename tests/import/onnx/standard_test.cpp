// SPDX-License-Identifier: MIT
// What the standard allows and runtimes often refuse, and what it forbids: an error names the node.
#include "tests/import/onnx/import_support.h"

namespace lathe::test {
namespace {

using Floats = std::vector<float>;
constexpr std::string_view kHead =
    R"(<ir_version: 10, opset_import: ["" : 24, "ai.onnx.preview.training" : 1]> )";

std::string model(std::string_view graph) { return fmt::format("{}{}", kHead, graph); }

TEST(Standard, AScanBodyMayHaveResultsOfUnknownRank) {
  const std::string text = model(R"(g (float[n, 4] x, int64[k] s) => (y) {
      y = Scan<num_scan_inputs = 1, body = b (float[4] e) => (z) { z = Reshape(e, s) }>(x) })");
  const Box x = floats({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const auto& [shape, extents] :
       {std::pair{integers({2}, {2, 2}), Dims{3, 2, 2}}, {integers({1}, {-1}), Dims{3, 4}}}) {
    const std::vector<Box> found = run_text(text, {x, shape});
    EXPECT_EQ(found[0].tensor().dims(), extents);
    EXPECT_EQ(values_of(found[0]), values_of(x));
  }
  EXPECT_EQ(run_text(text, {floats({0, 4}, {}), integers({1}, {-1})})[0].tensor().count(), 0);
}

TEST(Standard, ALoopBodyMayHaveResultsOfUnknownRank) {
  EXPECT_EQ(
      run_floats(model(R"(g (int64 m, float[2] x, int64[k] s) => (y) { y = Loop (m, , x) <body =
      b (int64 i, bool c, float[2] e) => (bool k, float[2] n, z) {
        k = Identity(c)  n = Add(e, e)  z = Reshape(n, s) }> })"),
                 {integers({}, {2}), floats({2}, {1, 2}), integers({1}, {2})}),
      (Floats{4, 8}));
}

TEST(Standard, BatchNormalizationTakesOneChannelAndStatisticsPerActivation) {
  constexpr std::string_view kGraph = R"(<ir_version: 3, opset_import: ["" : {}]>
      g (float[2, {}] x) => (y) <float[{}] s = {{{}}}, float[{}] b = {{{}}}, float[{}] m = {{{}}},
      float[{}] v = {{{}}}> {{ y = BatchNormalization<epsilon = 0.0{}>(x, s, b, m, v) }})";
  const auto text = [&](int opset, int n, std::string_view s, std::string_view b,
                        std::string_view m, std::string_view v, std::string_view rest) {
    return fmt::format(kGraph, opset, n, n, s, n, b, n, m, n, v, rest);
  };
  for (const int opset : {6, 7, 8}) {
    EXPECT_EQ(run_floats(text(opset, 1, "2", "1", "1", "4", opset == 6 ? ", is_test = 1" : ""),
                         {floats({2, 1}, {3, 5})}),
              (Floats{3, 5}));
  }
  EXPECT_EQ(run_floats(text(7, 2, "2, 1", "0, 1", "1, 2", "1, 4", ", spatial = 0"),
                       {floats({2, 2}, {1, 2, 3, 4})}),
            (Floats{0, 1, 4, 2}));
}

TEST(Standard, EmptyTensorsMayBeReshapedBySizesOfZero) {
  const auto dims_of = [](std::string_view shape, std::string_view rest = "") {
    const std::string text = model(
        fmt::format("g (float[n, 3] x) => (y) <int64[{}] s = {{{}}}> {{ y = Reshape{}(x, s) }}",
                    std::ranges::count(shape, ',') + 1, shape, rest));
    return run_text(text, {floats({0, 3}, {})})[0].tensor().dims();
  };
  EXPECT_EQ(dims_of("0, -1"), (Dims{0, 3}));
  EXPECT_EQ(dims_of("0, 5, 3"), (Dims{0, 5, 3}));
  EXPECT_EQ(dims_of("3, 0", "<allowzero = 1>"), (Dims{3, 0}));
}

TEST(Standard, BranchesMayOmitAndCaptureOptionalInputs) {
  const std::string omitted =
      model(R"(g (bool c, float[2] x) => (y) <float h = {0.5}> { y = If (c) <
      then_branch = a () => (float[2] p) { p = Clip(x, , h) },
      else_branch = b () => (float[2] r) { r = Neg(x) }> })");
  EXPECT_EQ(run_floats(omitted, {boolean(true), floats({2}, {-1, 2})}), (Floats{-1, 0.5}));
  EXPECT_EQ(run_floats(omitted, {boolean(false), floats({2}, {-1, 2})}), (Floats{1, -2}));
  const std::string captured =
      model(R"(g (bool c, float[2] x) => (y) { o = Optional(x)  y = If (c) <
      then_branch = a () => (float[2] p) { p = OptionalGetElement(o) },
      else_branch = b () => (float[2] r) { e = OptionalHasElement(o)  f = Cast<to = 1>(e)
                                           r = Add(x, f) }> })");
  EXPECT_EQ(run_floats(captured, {boolean(true), floats({2}, {1, 2})}), (Floats{1, 2}));
  EXPECT_EQ(run_floats(captured, {boolean(false), floats({2}, {1, 2})}), (Floats{2, 3}));
}

struct Breach {
  const char* name;
  const char* graph;
  const char* message;  // part of it
  const char* place;    // part of a note
};
class Strictness : public ::testing::TestWithParam<Breach> {};

TEST_P(Strictness, IsAnInvalidModelAndNamed) {
  const std::string error = import_error(model(GetParam().graph));
  EXPECT_TRUE(error.starts_with("InvalidModel: ")) << error;
  EXPECT_TRUE(contains(error, GetParam().message)) << error;
  EXPECT_TRUE(contains(error, GetParam().place)) << error;
}

constexpr Breach kBreaches[] = {
    {"AMissingAttribute", "g (float[2] x) => (y) { [n] y = Cast(x) }", "attribute 'to' is missing",
     "node 0 (Cast 'n'"},
    {"AnUnknownAttribute", "g (float[2] x) => (y) { [n] y = LeakyRelu<alhpa = 1.0>(x) }",
     "unknown attribute 'alhpa'", "node 0 (LeakyRelu 'n'"},
    {"AnAttributeOfAnotherKind", "g (float[2] x) => (y) { [n] y = LeakyRelu<alpha = 1>(x) }",
     "attribute 'alpha' is INT", "node 0 (LeakyRelu 'n'"},
    {"AnAttributeOfNoFunction",
     "g (float[2] x) => (y) { [n] y = LeakyRelu<alpha : float = @a>(x) }", "refers to 'a'",
     "node 0 (LeakyRelu 'n'"},
    {"AValueThatIsNotAllowed",
     R"(g (float[2] x, int64[1] i, float[1] u) => (y) {
        [n] y = ScatterElements<reduction = "avg">(x, i, u) })",
     "'avg'", "node 0 (ScatterElements 'n'"},
    {"ATypeThatIsNone", "g (float[2] x) => (y) { [n] y = Cast<to = 77>(x) }", "'to' is 77",
     "node 0 (Cast 'n'"},
    {"AConstantOfTwoValues", "g () => (c) { [n] c = Constant<value_float = 1.0, value_int = 2>() }",
     "value_int", "node 0 (Constant 'n'"},
    {"AConstantWithoutAValue", "g () => (c) { [n] c = Constant() }", "has a value",
     "node 0 (Constant 'n'"},
    {"AMissingInput", "g (float[2] x) => (y) { [n] y = Relu() }", "operand 0 ('x') is missing",
     "node 0 (Relu 'n'"},
    {"AnInputTooMany", "g (float[2] x) => (y) { [n] y = Relu(x, x) }", "has 2 inputs, Relu takes 1",
     "node 0 (Relu 'n'"},
    {"AnOutputTooMany", "g (float[2] x) => (y, z) { [n] y, z = Relu(x) }", "output 1 is used",
     "node 0 (Relu 'n'"},
    {"ATypeOfAnInput", "g (int64[2] x) => (y) { [n] y = Sqrt(x) }", "element type i64",
     "node 0 (Sqrt 'n'"},
    {"AMatrixOfStrings", "g (string[2, 2] x) => (y) { [n] y = EyeLike(x) }",
     "element type is string", "node 0 (EyeLike 'n'"},
    {"ARateOfStrings",
     R"(g (string r, int64 t, float[2] x, float[2] g, float[2] h) => (y, s) {
        [n] y, s = ai.onnx.preview.training.Adagrad(r, t, x, g, h) })",
     "the rate has element type string", "node 0 (ai.onnx.preview.training.Adagrad 'n'"},
    {"AnAxisOutOfRange", "g (float[2] x) => (y) { [n] y = Softmax<axis = 3>(x) }",
     "axis 3 is out of range", "node 0 (Softmax 'n'"},
    {"SplitsThatDoNotMatchTheOutputs",
     "g (float[6] x) => (a, b) { [n] a, b = Split<num_outputs = 3>(x) }", "num_outputs",
     "node 0 (Split 'n'"},
    {"BranchesOfOtherCounts",
     R"(g (bool c, float[2] x) => (y) { [n] y = If (c) <
        then_branch = a () => (float[2] p, float[2] q) { p = Neg(x) q = Neg(x) },
        else_branch = b () => (float[2] r) { r = Relu(x) }> })",
     "2 results", "node 0 (If 'n'"},
    {"BranchesOfOtherTypes",
     R"(g (bool c, float[2] x) => (y) { [n] y = If (c) <
        then_branch = a () => (float[2] p) { p = Neg(x) },
        else_branch = b () => (int64[2] r) { r = Cast<to = 7>(x) }> })",
     "is f32[2] in 'then' and i64[2] in 'else'", "node 0 (If 'n'"},
    {"ALoopBodyOfAnotherSignature",
     R"(g (int64 m, float[2] x) => (y) { [n] y = Loop (m, , x) <
        body = b (int64 i, bool c, float[2] s, float[2] e) => (bool k, float[2] p) {
          k = Identity(c) p = Neg(s) }> })",
     "the body has 2 outputs", "node 0 (Loop 'n'"},
};
INSTANTIATE_TEST_SUITE_P(All, Strictness, ::testing::ValuesIn(kBreaches),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace lathe::test

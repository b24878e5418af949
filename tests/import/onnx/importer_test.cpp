// SPDX-License-Identifier: MIT
#include <cstring>

#include "base/file_map.h"
#include "base/log.h"
#include "import/onnx/reader.h"
#include "tests/import/onnx/import_support.h"

namespace lathe {
namespace {

using namespace test;
using Floats = std::vector<float>;

std::vector<std::string> parameters_of(const Program& program) {
  std::vector<std::string> out;
  for (const auto& parameter : program.main().parameters()) {
    out.push_back(parameter->name() + " " + parameter->type().to_string());
  }
  return out;
}

TEST(Importer, SharesSymbolsOfNamedSizesAndMakesOnePerUnnamedSize) {
  const auto program = import_text(R"(<opset_import: ["" : 18]>
      g (float[batch, 3] x, float[batch, "?"] y, float[?, "?"] z) => (float[batch, 3] out) {
        out = Relu(x)
      })");
  EXPECT_EQ(parameters_of(*program),
            (std::vector<std::string>{"x f32[batch, 3]", "y f32[batch, y_1]", "z f32[z_0, z_1]"}));
}

TEST(Importer, MakesValidNamesOfSymbols) {
  const auto program = import_text(R"(<opset_import: ["" : 18]>
      g (float["past length + 1", "2x"] x) => (float[a, b] out) { out = Relu(x) })");
  EXPECT_EQ(parameters_of(*program), (std::vector<std::string>{"x f32[past_length_1, d2x]"}));
}

constexpr std::string_view kDefaultInput = R"(<ir_version: 3, opset_import: ["" : 8]>
    g (float[2] x, float[2] w) => (float[2] out) <float[2] w = {10, 20}> { out = Mul(x, w) })";

TEST(Importer, ImportsInputsWithInitialisersAsLiteralsUnlessOverridden) {
  EXPECT_EQ(run_floats(kDefaultInput, {floats({2}, {1, 2})}), (Floats{10, 40}));
  const auto fed = import_text(kDefaultInput, {.fed = {"w"}});
  EXPECT_EQ(parameters_of(*fed), (std::vector<std::string>{"x f32[2]", "w f32[2]"}));
}

TEST(Importer, KeepsOriginsAndNames) {
  const auto program = import_text(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[2] out) { [first] t = Neg(x)  [second] out = Abs(t) })");
  const Instruction& first = *program->main().instructions().front();
  EXPECT_EQ(first.result()->name(), "t");
  ASSERT_EQ(first.origins().size(), 1);
  EXPECT_EQ(first.origins()[0].file, "m.txt");
  EXPECT_EQ(first.origins()[0].node, "first");
  EXPECT_EQ(first.origins()[0].op_type, "Neg");
  EXPECT_EQ(program->main().result_names(), (std::vector<std::string>{"out"}));
}

TEST(Importer, ReportsEveryUnsupportedOperatorAtOnce) {
  const std::string error = import_error(R"(<opset_import: ["" : 18, "my" : 2]>
      g (float[2] x, bool c) => (float[2] out) {
        a = Nonsense(x)
        b = Nonsense(a)
        d = my.Thing(b)
        e = Gelu(d)
        out = If(c) <then_branch = t () => (float[2] y) { y = foo.Bar(x) },
                     else_branch = f () => (float[2] z) { z = Relu(x) }>
      })");
  EXPECT_TRUE(contains(error,
                       "Unsupported: 4 operators of 'm.txt' are not supported: "
                       "Gelu (opset 18, supported since opset 20, 1 node), "
                       "Nonsense (opset 18, 2 nodes), "
                       "foo.Bar (domain not imported, 1 node), "
                       "my.Thing (opset 2, 1 node)"));
  EXPECT_TRUE(contains(error, "in m.txt, node 0 (Nonsense, opset 18)"));
}

TEST(Importer, SuggestsAttributesAndNamesTheNode) {
  const std::string error = import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[2] out) { [leak] out = LeakyRelu<alhpa = 0.5>(x) })");
  EXPECT_EQ(error,
            "InvalidModel: unknown attribute 'alhpa' (did you mean 'alpha'?)\n"
            "  in m.txt, node 0 (LeakyRelu 'leak', opset 18)");
}

TEST(Importer, ChecksKindsOfAttributes) {
  EXPECT_TRUE(contains(import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[2] out) { out = Softmax<axis = "last">(x) })"),
                       "attribute 'axis' is STRING"));
  EXPECT_TRUE(contains(import_error(R"(<opset_import: ["" : 18]>
      g (float[2, 3] x) => (float[6] out) { out = Transpose<perm = 1>(x) })"),
                       "attribute 'perm' is INT"));
}

TEST(Importer, NamesMissingInputsAndOperands) {
  EXPECT_TRUE(contains(import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[2] out) { out = Add(x) })"),
                       "add: operand 1 ('b') is missing"));
  EXPECT_TRUE(contains(import_error(R"(<opset_import: ["" : 18]>
      g (float[2, 2] x, int64[2] s) => (float[4] out) { out = MatMul(x, s) })"),
                       "node 0 (MatMul, opset 18)"));
}

// The inputs of every version are compared with its schema by scripts/make_onnx_docs.py.
TEST(Importer, RefusesMoreInputsThanTheSchemaAllowsAndFewer) {
  const auto error = [](int opset, std::string_view node) {
    return import_error(fmt::format(R"(<opset_import: ["" : {}, "com.microsoft" : 1]>
        g (float[2] x) => (out) {{ out = {} }})",
                                    opset, node));
  };
  EXPECT_EQ(error(7, "Dropout(x, x)"),
            "InvalidModel: the node has 2 inputs, Dropout takes 1 at most\n"
            "  in m.txt, node 0 (Dropout, opset 7)");
  for (const std::string_view node :
       {"Flatten(x, x)", "Relu(x, x)", "Constant<value_int = 1>(x)", "Pad(x, x, x, x)",
        "com.microsoft.QuickGelu(x, x)", "Split<axis = 0>(x, x)"}) {
    EXPECT_TRUE(contains(error(11, node), " at most")) << node;
  }
  EXPECT_TRUE(contains(error(9, "Gemm(x, x)"), "InvalidModel: input 2 is missing, the node has 2"));
  for (const std::string_view node :
       {"Resize(x, , x)", "com.microsoft.QLinearConcat(x)", "Clip( , x)"}) {
    EXPECT_TRUE(contains(error(11, node), " is missing")) << node;
  }
  EXPECT_EQ(run_floats(R"(<opset_import: ["" : 11]>
      g (float[2] x) => (out) { out = Relu(x, , ) })",
                       {floats({2}, {-1, 2})}),
            (Floats{0, 2}));
}

TEST(Importer, OmitsOptionalInputsAndOutputs) {
  EXPECT_EQ(run_floats(R"(<opset_import: ["" : 18]>
      g (float[3] x) => (float[3] out) <float high = {2}> { out = Clip(x, , high) })",
                       {floats({3}, {-5, 1, 7})}),
            (Floats{-5, 1, 2}));
  const auto results = run_text(R"(<opset_import: ["" : 18]>
      g (float[4] x) => (int64[2] at) <int64[1] k = {2}> { , at = TopK(x, k) })",
                                {floats({4}, {1, 9, 3, 7})});
  EXPECT_EQ(results[0].tensor().as<int64_t>()[0], 1);
  EXPECT_EQ(results[0].tensor().as<int64_t>()[1], 3);
}

// Weights are not copied, and the text form names their place in the file.
TEST(Importer, KeepsWeightsInTheirFile) {
  const std::string path = "examples/digits/digits.onnx";
  const auto program = import_onnx(onnx::read_model(path));
  const auto file = FileMap::open(path);
  int64_t found = 0;
  for (const auto& instruction : program->main().instructions()) {
    const LiteralRef& literal = instruction->literal();
    if (literal == nullptr || literal->file.empty()) continue;
    EXPECT_EQ(literal->file, path);
    const auto size = static_cast<size_t>(literal->tensor.byte_size());
    const auto offset = static_cast<size_t>(literal->offset);
    ASSERT_LE(offset + size, file->bytes().size());
    EXPECT_EQ(std::memcmp(literal->tensor.data(), file->bytes().data() + offset, size), 0);
    ++found;
  }
  EXPECT_GT(found, 2);
}

constexpr std::string_view kFunctions = R"(<ir_version: 10, opset_import: ["" : 18, "my" : 1]>
    g (float[2] x) => (float[2] a, float[2] b, float[2] c) {
      a = my.scaled<by = 3.0>(x)
      b = my.scaled(x)
      c = my.twice<by = 5.0>(x)
    }
    <domain: "my", opset_import: ["" : 18]>
    scaled <by : float = 2.0> (v) => (w) { f = Constant<value_float : float = @by>()
                                           w = Mul(v, f) }
    <domain: "my", opset_import: ["" : 18, "my" : 1]>
    twice <by> (v) => (w) { t = my.scaled<by : float = @by>(v)
                            w = my.scaled<by : float = @by>(t) })";

TEST(Importer, InlinesFunctionsWithTheirAttributes) {
  const auto results = run_text(kFunctions, {floats({2}, {1, 2})});
  EXPECT_EQ(values_of(results[0]), (Floats{3, 6}));
  EXPECT_EQ(values_of(results[1]), (Floats{2, 4}));
  EXPECT_EQ(values_of(results[2]), (Floats{25, 50}));
}

TEST(Importer, RefusesDeclarationsThatContradict) {
  EXPECT_EQ(import_error(R"(<ir_version: 8, opset_import: ["" : 18]>
      g (float[2] w) => (float[2] out) <int64[2] w = {1, 2}> { out = Relu(w) })"),
            "InvalidModel: input 'w' is declared with element type f32, but its initialiser is "
            "i64[2]");
  EXPECT_EQ(import_error(R"(<ir_version: 8, opset_import: ["" : 18]>
      g (float[3] w) => (float[2] out) <float[2] w = {1, 2}> { out = Relu(w) })"),
            "InvalidModel: input 'w' is declared with size 3 on axis 0, but its initialiser is "
            "f32[2]");
  EXPECT_EQ(import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (int64[2] out) { out = Relu(x) })"),
            "InvalidModel: 'out' is declared with element type i64, but is f32[2]");
  EXPECT_EQ(import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[2] out) <double[2] y> { y = Neg(x)  out = Relu(y) })"),
            "InvalidModel: 'y' is declared with element type f64, but is f32[2]");
}

// ONNX Runtime runs such files, too.
TEST(Importer, WarnsOfDeclaredShapesThatContradict) {
  std::vector<std::string> lines;
  set_log_sink([&](int, std::string_view line) { lines.emplace_back(line); });
  const std::vector<float> found = run_floats(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[7] out) <float[2, 1] y> { y = Neg(x)  out = Neg(y) })",
                                              {floats({2}, {-1, 2})});
  set_log_sink(nullptr);
  EXPECT_EQ(found, (Floats{-1, 2}));
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "in m.txt: 'y' is declared with rank 2, but is f32[2] (and 1 more)"}));
}

TEST(Importer, RefusesMissingAttributesAndOtherKinds) {
  EXPECT_EQ(import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[4] out) { out = Concat(x, x) })"),
            "InvalidModel: attribute 'axis' is missing\n  in m.txt, node 0 (Concat, opset 18)");
  EXPECT_TRUE(contains(import_error(R"(<opset_import: ["" : 18]>
      g (float[2] x) => (float[2] out) { out = LeakyRelu<alpha = 1>(x) })"),
                       "InvalidModel: attribute 'alpha' is INT"));
}

TEST(Importer, ListsInputsWithADefault) {
  const auto program = import_text(R"(<ir_version: 8, opset_import: ["" : 18]>
      g (float[2] x, float[2] w) => (float[2] out) <float[2] w = {1, 2}> { out = Mul(x, w) })");
  EXPECT_EQ(program->metadata.at("default of input w"), "f32[2]");
}

TEST(Importer, ReducesOverAnAxisNamedTwice) {
  EXPECT_EQ(run_floats(R"(<opset_import: ["" : 18]>
      g (float[2, 2] x) => (float[1, 2] out) <int64[2] axes = {0, -2}> {
        out = ReduceSum(x, axes) })",
                       {floats({2, 2}, {1, 2, 3, 4})}),
            (Floats{4, 6}));
}

TEST(Importer, NamesTheFunctionInWhichANodeIsWrong) {
  const std::string error = import_error(R"(<ir_version: 10, opset_import: ["" : 18, "my" : 1]>
      g (float[2] x) => (float[2] a) { [call] a = my.f(x) }
      <domain: "my", opset_import: ["" : 17]> f (v) => (w) { w = Relu<alpha = 1.0>(v) })");
  EXPECT_TRUE(contains(error,
                       "in m.txt, node 0 (Relu, opset 17)\n  in function 'my:f'\n"
                       "  in m.txt, node 0 (my.f 'call', opset 1)"));
}

TEST(Importer, ChecksCallsOfFunctions) {
  constexpr std::string_view kFunction =
      R"(<domain: "my", opset_import: ["" : 18]> f <a> (v) => (w) { w = Relu(v) })";
  const auto error_of_call = [&](std::string_view call) {
    return import_error(fmt::format(
        R"(<ir_version: 10, opset_import: ["" : 18, "my" : 1]>
        g (float[2] x) => (float[2] y) {{ {} }} {})",
        call, kFunction));
  };
  EXPECT_TRUE(contains(error_of_call("y = my.f(x)"), "attribute 'a' is missing in this call"));
  EXPECT_TRUE(
      contains(error_of_call("y = my.f<a = 1>(x, x)"), "the call has 2 inputs, 'f' takes 1"));
  EXPECT_TRUE(
      contains(error_of_call("y, z = my.f<a = 1>(x)"), "the call has 2 outputs, 'f' has 1"));
}

}  // namespace
}  // namespace lathe

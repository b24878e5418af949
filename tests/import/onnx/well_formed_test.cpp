// SPDX-License-Identifier: MIT
#include "import/onnx/well_formed.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "import/onnx/text_reader.h"
#include "tests/support/errors.h"

namespace lathe::onnx {
namespace {

// The error of the nodes `body` in a graph (float x) => (float y).
std::string error_in(std::string_view body, std::string_view functions = "") {
  const std::string text = fmt::format(
      R"(<ir_version: 8, opset_import: ["" : 18, "my" : 1]>
         g (float x, bool c) => (float y) <float w = {{1}}> {{ {} }} {})",
      body, functions);
  return error_of([&] { parse_text_model(text, "m.txt"); });
}

TEST(WellFormed, DefinitionsAreUnique) {
  EXPECT_EQ(error_in("y = Neg(x) [again] y = Abs(x)"),
            "InvalidModel: 'y' is defined twice, expected one definition of each name\n"
            "  in m.txt, node 1 (Abs 'again', opset 18)");
  EXPECT_EQ(error_in("x = Neg(x) y = Neg(x)"),
            "InvalidModel: 'x' is defined twice, expected one definition of each name\n"
            "  in m.txt, node 0 (Neg, opset 18)");
  EXPECT_EQ(error_in("w = Neg(x) y = Neg(x)"),
            "InvalidModel: 'w' is defined twice, expected one definition of each name\n"
            "  in m.txt, node 0 (Neg, opset 18)");
}

TEST(WellFormed, AnInitialiserMayBeAnInputsDefault) {
  EXPECT_EQ(error_of([] {
              parse_text_model(R"(<opset_import: ["": 18]>
                                  g (float x = {1}) => (float x) {})");
            }),
            "no error");
}

TEST(WellFormed, UsedNamesAreDefined) {
  EXPECT_EQ(error_in("hidden = Neg(x) y = Abs(hiden)"),
            "InvalidModel: input 'hiden' is not defined (did you mean 'hidden'?)\n"
            "  in m.txt, node 1 (Abs, opset 18)");
  EXPECT_EQ(error_in("z = Neg(x)"), "InvalidModel: output 'y' of graph 'g' is not defined");
}

TEST(WellFormed, SubgraphsUseOuterNames) {
  EXPECT_EQ(error_in("y = If(c) <then_branch = t () => (float a) { a = Neg(x) }, "
                     "else_branch = e () => (float b) { b = Neg(w) }>"),
            "no error");
  EXPECT_EQ(error_in("y = If(c) <then_branch = t () => (float a) { a = Neg(undefined) }>"),
            "InvalidModel: input 'undefined' is not defined\n"
            "  in m.txt, node 0 (Neg, opset 18)\n"
            "  in m.txt, node 0 (If, opset 18)");
  // Names of a branch are local.
  EXPECT_EQ(error_in("z = If(c) <then_branch = t () => (float inner) { inner = Neg(x) }> "
                     "y = Neg(inner)"),
            "InvalidModel: input 'inner' is not defined\n"
            "  in m.txt, node 1 (Neg, opset 18)");
}

TEST(WellFormed, NodesAreSorted) {
  const Model model = parse_text_model(R"(<opset_import: ["": 18]>
      g (float x, bool c) => (float y, float u) {
        [last] y = Add(b, d)
        [branch] d = If(c) <then_branch = t () => (float q) { q = Neg(b) },
                            else_branch = e () => (float r) { r = Neg(x) }>
        [free] u = Neg(x)
        [first] b = Abs(a)
        [very_first] a = Abs(x)
      })");
  std::string order;
  for (const Node& node : model.graph.nodes) order += fmt::format("{}:{} ", node.name, node.index);
  EXPECT_EQ(order, "free:2 very_first:4 first:3 branch:1 last:0 ");
}

TEST(WellFormed, CyclesAreNamed) {
  EXPECT_EQ(error_in("y = Neg(y)"),
            "InvalidModel: graph 'g' has a cycle: node 0 (Neg) uses node 0 (Neg)");
  EXPECT_EQ(error_in("[p] a = Add(x, b) [q] b = Neg(a) [r] y = Neg(b)"),
            "InvalidModel: graph 'g' has a cycle: node 0 (Add 'p') uses node 1 (Neg 'q') uses "
            "node 0 (Add 'p')");
  // A cycle through a subgraph.
  EXPECT_EQ(error_in("y = If(c) <then_branch = t () => (float a) { a = Neg(y) }>"),
            "InvalidModel: graph 'g' has a cycle: node 0 (If) uses node 0 (If)");
}

TEST(WellFormed, OpsetsAreImported) {
  const auto error = [](std::string_view header) {
    return error_of([&] {
      parse_text_model(fmt::format("<{}> g (float x) => (float y) {{ y = Neg(x) }}", header),
                       "m.txt");
    });
  };
  EXPECT_EQ(error("ir_version: 8"),
            "InvalidModel: 'm.txt' imports no opset (ir_version 8), expected opset_import to name "
            "at least one");
  EXPECT_EQ(error("ir_version: 2"), "no error");
  EXPECT_EQ(error(R"(opset_import: ["my": 1])"),
            "InvalidModel: op type 'Neg' is of the standard domain, but no opset of that domain is "
            "imported\n  in m.txt, node 0 (Neg, opset not imported)");
  EXPECT_EQ(error(R"(opset_import: ["": 0])"),
            "InvalidModel: 'm.txt' imports version 0 of domain '', expected 1 or above");
  EXPECT_EQ(error(R"(opset_import: ["": 0, "ai.onnx": 18])"), "no error");
}

TEST(WellFormed, FunctionsMayCallOthersButNotThemselves) {
  constexpr std::string_view kHead = R"(<domain: "my", opset_import: ["" : 18, "my" : 1]> )";
  const auto functions = [&](std::initializer_list<std::string_view> bodies) {
    std::string out;
    for (const std::string_view body : bodies) out += std::string(kHead).append(body).append("\n");
    return out;
  };
  EXPECT_EQ(error_in("y = my.F(x)",
                     functions({"F (a) => (b) { b = my.G(a) }", "G (a) => (b) { b = Neg(a) }"})),
            "no error");
  EXPECT_EQ(error_in("y = my.F(x)",
                     functions({"F (a) => (b) { b = my.G(a) }", "G (a) => (b) { b = my.F(a) }"})),
            "InvalidModel: function 'my:F' calls itself, directly or through others");
  EXPECT_EQ(error_in("y = my.F(x)",
                     functions({"F (a) => (b) { b = Neg(a) }", "F (a) => (b) { b = Abs(a) }"})),
            "InvalidModel: function 'my:F' is defined twice");
  EXPECT_EQ(error_in("y = my.F(x)", functions({"F (a) => (b) { b = Neg(x) }"})),
            "InvalidModel: input 'x' is not defined\n"
            "  in m.txt, node 0 (Neg, opset 18)\n"
            "  in function 'my:F'");
}

TEST(WellFormed, FunctionsThatMultiplyAreBounded) {
  std::string functions;
  for (int i = 0; i < 40; ++i) {  // each calls the previous one twice
    const std::string call = i == 0 ? "Neg" : fmt::format("my.F{}", i - 1);
    functions += fmt::format(R"(<domain: "my", opset_import: ["" : 18, "my" : 1]>
        F{} (a) => (c) {{ b = {}(a) c = {}(b) }} )",
                             i, call, call);
  }
  EXPECT_EQ(error_in("y = my.F39(x)", functions),
            "InvalidModel: 'm.txt' has more than 4000000 nodes once its functions are inlined");
}

TEST(WellFormed, FunctionsThatNestAreBounded) {
  for (const bool is_last_first : {false, true}) {
    std::vector<std::string> functions;
    for (int i = 0; i < 100; ++i) {
      const std::string call = i == 0 ? "Neg" : fmt::format("my.F{}", i - 1);
      functions.push_back(fmt::format(R"(<domain: "my", opset_import: ["" : 18, "my" : 1]>
          F{} (a) => (b) {{ b = {}(a) }} )",
                                      i, call));
    }
    if (is_last_first) std::reverse(functions.begin(), functions.end());
    const std::string error =
        error_in("y = my.F99(x)", fmt::format("{}", fmt::join(functions, " ")));
    EXPECT_TRUE(error.starts_with("InvalidModel: calls of functions nest deeper than 64 levels"))
        << error;
  }
}

TEST(WellFormed, AHundredThousandNodesInReverseAreSortedQuickly) {
  Model model;
  model.ir_version = 8;
  model.imports = {{"", 18}};
  const int64_t count = 100'000;
  std::vector<std::string> names;
  for (int64_t i = 0; i <= count; ++i) names.push_back(fmt::format("v{}", i));
  model.graph.inputs.push_back({names[0], {ValueType::Kind::tensor, {}, {}, {}}});
  for (int64_t i = count - 1; i >= 0; --i) {
    Node& node = model.graph.nodes.emplace_back();
    node.op_type = "Neg";
    node.inputs = {names[static_cast<size_t>(i)]};
    node.outputs = {names[static_cast<size_t>(i) + 1]};
    node.index = count - 1 - i;
  }
  make_well_formed(model);
  EXPECT_EQ(model.graph.nodes.front().index, count - 1);
  EXPECT_EQ(model.graph.nodes.back().index, 0);
}

}  // namespace
}  // namespace lathe::onnx

// SPDX-License-Identifier: MIT
#include "import/onnx/text_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "import/onnx/reader.h"
#include "tests/support/errors.h"
#include "tests/support/folder.h"

namespace lathe::onnx {
namespace {

// Reads the attribute of the first node of a graph.
struct OneNode {
  explicit OneNode(std::string_view node)
      : model(parse_text_model(fmt::format(
            R"(<opset_import: ["" : 18, "my.domain" : 1]> g (float x) => () {{ {} }})", node))) {}
  const Node& node() const { return model.graph.nodes.at(0); }
  const Attribute& attribute(size_t i = 0) const { return node().attributes.at(i); }
  Model model;
};

template <class T>
T value(const Attribute& attribute) {
  const T* found = attribute.get_if<T>();
  EXPECT_NE(found, nullptr) << attribute.name << " is " << to_string(attribute.kind());
  return found == nullptr ? T() : *found;
}

template <class T>
std::vector<T> elements(const Tensor& tensor) {
  const std::span<T> all = tensor.elements<T>();
  return {all.begin(), all.end()};
}

Tensor tensor_of(std::string_view text) {
  const Model model =
      parse_text_model(fmt::format(R"(<opset_import: ["" : 18]> g () => () <{} > {{}})", text));
  return to_tensor(model.graph.initializers.at(0));
}

std::string error_in(std::string_view text) {
  return error_of([&] { parse_text_model(text, "m.txt"); });
}

// The example in the documentation of the syntax.
TEST(TextReader, ReadsTheDocumentedExample) {
  const Model model = parse_text_model(R"ONNX(
   <
     ir_version: 7,
     opset_import: [ "" : 10 ]
   >
   agraph (float[N, 128] X, float[128, 10] W, float[10] B) => (float[N, 10] C)
   {
       T = MatMul(X, W)
       S = Add(T, B)
       C = Softmax(S)
   }
   )ONNX");
  EXPECT_EQ(model.ir_version, 7);
  EXPECT_EQ(opset_version(model.imports, ""), 10);
  EXPECT_EQ(model.graph.name, "agraph");
  ASSERT_EQ(model.graph.inputs.size(), 3u);
  const ValueType& x = model.graph.inputs[0].type;
  EXPECT_EQ(x.element, ElementType::f32);
  EXPECT_EQ(x.extents->at(0).symbol, "N");
  EXPECT_EQ(x.extents->at(1).value, 128);
  ASSERT_EQ(model.graph.nodes.size(), 3u);
  EXPECT_EQ(model.graph.nodes[1].op_type, "Add");
  EXPECT_EQ(model.graph.nodes[1].inputs, (std::vector<std::string_view>{"T", "B"}));
  EXPECT_EQ(model.graph.nodes[1].index, 1);
  EXPECT_EQ(model.graph.outputs.at(0).name, "C");
}

TEST(TextReader, ReadsTypes) {
  const Model model = parse_text_model(R"(<opset_import: ["" : 18]>
      g (float a, float[] b, float[?, "odd name", 0] c, seq(int64[N]) d, optional(string[2]) e,
         map(int64, seq(bfloat16[])) f) => () {})");
  const std::vector<ValueInfo>& inputs = model.graph.inputs;
  EXPECT_EQ(inputs.at(0).type.extents->size(), 0u);
  EXPECT_FALSE(inputs.at(1).type.extents.has_value());
  EXPECT_LT(inputs.at(2).type.extents->at(0).value, 0);
  EXPECT_EQ(inputs.at(2).type.extents->at(1).symbol, "odd name");
  EXPECT_EQ(inputs.at(2).type.extents->at(2).value, 0);
  EXPECT_EQ(inputs.at(3).type.kind, ValueType::Kind::sequence);
  EXPECT_EQ(inputs.at(3).type.item->extents->at(0).symbol, "N");
  EXPECT_EQ(inputs.at(4).type.kind, ValueType::Kind::optional);
  EXPECT_EQ(inputs.at(5).type.element, ElementType::i64);
  EXPECT_EQ(inputs.at(5).type.item->item->element, ElementType::bf16);
}

TEST(TextReader, ReadsAttributes) {
  const OneNode all(R"(y = Op <i = -3, f = 1.5, e = 1e-3, s = "a\"b\\", is = [1, 2], fs = [1.0, 2],
      ss = ["a", ""], none: ints = [], cast: float = 2, big = -inf, t = int32[2] {4, 5},
      named = float[1] w = {0.5}, tp = float[N], tps: tensors = [float {1}, float {2}]> (x))");
  EXPECT_EQ(value<int64_t>(all.attribute(0)), -3);
  EXPECT_EQ(value<float>(all.attribute(1)), 1.5f);
  EXPECT_EQ(value<float>(all.attribute(2)), 1e-3f);
  EXPECT_EQ(value<std::string_view>(all.attribute(3)), "a\"b\\");
  EXPECT_EQ(value<std::vector<int64_t>>(all.attribute(4)), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(value<std::vector<float>>(all.attribute(5)), (std::vector<float>{1, 2}));
  EXPECT_EQ(value<std::vector<std::string_view>>(all.attribute(6)).at(0), "a");
  EXPECT_TRUE(value<std::vector<int64_t>>(all.attribute(7)).empty());
  EXPECT_EQ(value<float>(all.attribute(8)), 2);
  EXPECT_EQ(value<float>(all.attribute(9)), -HUGE_VALF);
  const auto tensor = value<std::shared_ptr<const TensorData>>(all.attribute(10));
  EXPECT_EQ(elements<int32_t>(to_tensor(*tensor)), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(value<std::shared_ptr<const TensorData>>(all.attribute(11))->name, "w");
  EXPECT_EQ(value<std::shared_ptr<const ValueType>>(all.attribute(12))->extents->at(0).symbol, "N");
  EXPECT_EQ(value<std::vector<std::shared_ptr<const TensorData>>>(all.attribute(13)).size(), 2u);
}

TEST(TextReader, ReadsNodes) {
  const OneNode node(R"([label] a, , "odd name" = my.domain.Op:two ("", x, ) <alpha = 1>)");
  EXPECT_EQ(node.node().name, "label");
  EXPECT_EQ(node.node().outputs, (std::vector<std::string_view>{"a", "", "odd name"}));
  EXPECT_EQ(node.node().inputs, (std::vector<std::string_view>{"", "x"}));
  EXPECT_EQ(node.node().domain, "my.domain");
  EXPECT_EQ(node.node().op_type, "Op");
  EXPECT_EQ(node.node().overload, "two");
  EXPECT_EQ(value<int64_t>(node.attribute()), 1);
  EXPECT_EQ(OneNode("y = ai.onnx.Relu(x)").node().domain, "");
  EXPECT_TRUE(OneNode("= Op()").node().outputs.empty());
}

TEST(TextReader, ReadsSubgraphs) {
  const Model model = parse_text_model(R"(<opset_import: ["" : 18]>
      g (bool c, float x) => (float y) {
        y = If (c) <
          then_branch = t () => (float a) <float w = {2}> { a = Mul(x, w) },
          else_branch = e () => (float b) { b = Neg(x) }
        >
      })");
  const Node& node = model.graph.nodes.at(0);
  const auto then_branch = value<std::shared_ptr<Graph>>(node.attributes.at(0));
  EXPECT_EQ(then_branch->name, "t");
  EXPECT_EQ(then_branch->nodes.at(0).op_type, "Mul");
  EXPECT_EQ(then_branch->initializers.at(0).name, "w");
  EXPECT_EQ(value<std::shared_ptr<Graph>>(node.attributes.at(1))->nodes.at(0).op_type, "Neg");
}

TEST(TextReader, ReadsFunctions) {
  const Model model = parse_text_model(R"(
      <ir_version: 8, opset_import: ["" : 18, "my" : 1], producer_name: "p",
       metadata_props: ["k" : "v"]>
      g (float[2] x) => (float[2] y) { y = my.F <alpha = 2.0> (x) }
      <domain: "my", opset_import: ["" : 17], overload: "">
      F <alpha, beta: float = 1, mode = "up"> (float[2] a) => (b) <float t> {
        t = LeakyRelu <alpha: float = @alpha> (a)
        b = Neg(t)
      })");
  EXPECT_EQ(model.producer, "p");
  EXPECT_EQ(model.metadata.at(0).second, "v");
  const Function* function = model.find_function("my", "F", "");
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function->inputs, (std::vector<std::string_view>{"a"}));
  EXPECT_EQ(function->outputs, (std::vector<std::string_view>{"b"}));
  EXPECT_EQ(function->attributes, (std::vector<std::string_view>{"alpha"}));
  EXPECT_EQ(value<float>(function->defaults.at(0)), 1);
  EXPECT_EQ(value<std::string_view>(function->defaults.at(1)), "up");
  EXPECT_EQ(function->nodes.at(0).attributes.at(0).reference, "alpha");
  EXPECT_EQ(opset_version(function->imports, ""), 17);
}

TEST(TextReader, ReadsTensorsOfEveryKind) {
  EXPECT_EQ(elements<float>(tensor_of("float[3] w = {1, -2.5, inf}")),
            (std::vector<float>{1, -2.5f, HUGE_VALF}));
  EXPECT_EQ(elements<double>(tensor_of("double[1] w = {0.1}")), (std::vector<double>{0.1}));
  EXPECT_EQ(elements<int8_t>(tensor_of("int8[2] w = {-1, 127}")), (std::vector<int8_t>{-1, 127}));
  EXPECT_EQ(elements<uint64_t>(tensor_of("uint64[1] w = {18446744073709551615}")),
            (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(elements<std::string>(tensor_of(R"(string[2] w = {"a", "b\"c"})")),
            (std::vector<std::string>{"a", "b\"c"}));
  EXPECT_EQ(elements<uint8_t>(tensor_of("bool[2] w = {0, 1}")), (std::vector<uint8_t>{0, 1}));
  // 16 bits and fewer as bit patterns: 1.0, -2.0.
  EXPECT_EQ(elements<uint16_t>(tensor_of("float16[2] w = {15360, 49152}")),
            (std::vector<uint16_t>{0x3c00, 0xc000}));
  EXPECT_EQ(tensor_of("complex64[2] w = {1, 2, 3, 4}").byte_size(), 16);
  EXPECT_EQ(tensor_of("float[2, 0] w = {}").count(), 0);
  // One number per element, or one per byte as TensorProto has them.
  const auto bytes = [](const Tensor& tensor) {
    return std::string(static_cast<const char*>(tensor.data()),
                       static_cast<size_t>(tensor.byte_size()));
  };
  EXPECT_EQ(bytes(tensor_of("int4[3] w = {1, -2, 3}")), "\xe1\x03");
  EXPECT_EQ(bytes(tensor_of("int4[3] w = {33, 3}")), "\x21\x03");
  EXPECT_EQ(bytes(tensor_of("uint2[5] w = {0, 1, 2, 3, 1}")), "\xe4\x01");
}

TEST(TextReader, TensorsMayBeExternal) {
  const TestFolder folder;
  folder.write("w.bin", std::string_view("\0\0\x80\x3f", 4));
  const std::string path = folder.write("m.txt", R"(<opset_import: ["" : 18]>
      g () => () <float[1] w = ["location" : "w.bin", "offset" : "0"]> {})");
  EXPECT_EQ(to_tensor(read_model(path).graph.initializers.at(0)).elements<float>()[0], 1);
}

TEST(TextReader, OutlivesItsText) {
  auto text = std::make_unique<std::string>(
      R"(<opset_import: ["" : 18]> g (float x) => (float y) { y = Op <s = "a\"b"> (x) })");
  const Model model = parse_text_model(*text);
  std::fill(text->begin(), text->end(), '!');
  text.reset();
  EXPECT_EQ(model.graph.nodes.at(0).op_type, "Op");
  EXPECT_EQ(value<std::string_view>(model.graph.nodes.at(0).attributes.at(0)), "a\"b");
}

TEST(TextReader, CommentsAndBlanksAreIgnored) {
  EXPECT_EQ(error_in("# first\n<opset_import:[\"\":18]>#\ng(float x)=>(float y){y=Neg(x)}# last"),
            "no error");
}

TEST(TextReader, ErrorsShowThePosition) {
  EXPECT_EQ(error_in("g (float x) => (float y)\n{\n  y = Neg(x\n}\n"),
            "InvalidModel: m.txt:4:1: expected ')', found '}'\n  }\n  ^");
  EXPECT_EQ(error_in("g (float[2 x) => () {}"),
            "InvalidModel: m.txt:1:12: expected ']', found 'x'\n"
            "  g (float[2 x) => () {}\n"
            "             ^");
  EXPECT_EQ(error_in("g () = > () {}"),
            "InvalidModel: m.txt:1:6: expected '=>', found '='\n  g () = > () {}\n       ^");
  EXPECT_EQ(error_in("g () => ("),
            "InvalidModel: m.txt:1:10: expected a value's name, found the end of the text\n"
            "  g () => (\n"
            "           ^");
  EXPECT_EQ(error_in("<ir_versoin: 8> g () => () {}"),
            "InvalidModel: m.txt:1:2: a model has no property 'ir_versoin'\n"
            "  <ir_versoin: 8> g () => () {}\n"
            "   ^");
  const auto first_line = [](std::string_view text) {
    const std::string error = error_in(text);
    return error.substr(0, error.find('\n'));
  };
  EXPECT_EQ(first_line("g () => () { y = Op <s = \"never closed> () }"),
            "InvalidModel: m.txt:1:26: this string has no closing '\"'");
  EXPECT_EQ(first_line("g () => () <float[3] w = {1, 2}> {}"),
            "InvalidModel: m.txt:1:26: f32[3] needs 3 numbers or strings, found 2");
  EXPECT_EQ(first_line("g () => () { y = Op <a = 99999999999999999999> () }"),
            "InvalidModel: m.txt:1:26: this number does not fit 64 bits");
  EXPECT_EQ(first_line("g () => () { y = Op <a = 1, a = 2> () }"),
            "InvalidModel: m.txt:1:29: this attribute is defined twice");
  EXPECT_EQ(first_line("g () => () { y = Op <a = []> () }"),
            "InvalidModel: m.txt:1:28: an empty list needs its type, such as axes: ints = []");
  EXPECT_EQ(first_line("g () => () { y = Op <a = [1, \"b\"]> () }"),
            "InvalidModel: m.txt:1:30: this value has another type than the list's first");
  EXPECT_EQ(first_line("g () => () { y = Op <a: ints = 1> () }"),
            "InvalidModel: m.txt:1:23: the attribute is declared INTS, but its value is INT");
  EXPECT_EQ(first_line("g (sparse_tensor(float) x) => () {}"),
            "InvalidModel: m.txt:1:4: type 'sparse_tensor' is not supported");
}

TEST(TextReader, NestingIsBounded) {
  std::string text = "g () => () ";
  for (int i = 0; i < 1000; ++i) text += "{ y = If <a = g () => () ";
  EXPECT_NE(error_in(text).find("subgraphs nest deeper than 64 levels"), std::string::npos);
  std::string type = "g (";
  for (int i = 0; i < 100'000; ++i) type += "seq(";
  EXPECT_NE(error_in(type).find("types nest deeper than 64 levels"), std::string::npos);
}

TEST(TextReader, ACutTextIsRefusedAtEveryLength) {
  const std::string whole =
      R"(<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) <float w = {1.5}>
         { [n] y = Op <a = [1, 2], s = "t\"u", b = h () => () {}> (x, w) })";
  ASSERT_EQ(error_in(whole), "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = error_in(whole.substr(0, size));
    EXPECT_TRUE(error.starts_with("InvalidModel: m.txt:")) << size << ": " << error;
  }
}

}  // namespace
}  // namespace lathe::onnx

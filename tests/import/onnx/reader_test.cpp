// SPDX-License-Identifier: MIT
#include "import/onnx/reader.h"

#include <gtest/gtest.h>

#include "import/onnx/tensor_proto.h"
#include "tests/import/onnx/model_bytes.h"
#include "tests/support/errors.h"
#include "tests/support/folder.h"

namespace lathe::onnx {
namespace {

std::string error_in(const Bytes& bytes) {
  return error_of([&] { parse_model(bytes.data(), "m.onnx", nullptr); });
}

// Reads a model whose only node has this attribute.
Bytes model_with_attribute(const Bytes& attribute) {
  Bytes graph;
  graph.message(1, node_bytes("Op", {}, {"y"}).message(5, attribute)).message(12, value_bytes("y"));
  return model_bytes(graph);
}

Attribute read_attribute(const Bytes& attribute) {
  static std::string bytes;  // the attribute's views point into the model and the bytes
  static Model model;
  bytes = model_with_attribute(attribute).data();
  model = parse_model(bytes, "m.onnx", nullptr);
  return model.graph.nodes.at(0).attributes.at(0);
}

TEST(Reader, ShowsAModelsParts) {
  Bytes function;
  function.text(1, "F").text(4, "a").text(5, "b").text(6, "alpha").text(10, "my");
  function.message(7, node_bytes("Neg", {"a"}, {"b"})).message(9, Bytes().integer(2, 17));
  function.message(11, Bytes().text(1, "beta").number(2, 0.5f).integer(20, 1));
  Bytes bytes = relu_model();
  bytes.text(2, "maker").text(3, "1.2").text(4, "some.domain").integer(5, 3).message(25, function);
  bytes.message(14, Bytes().text(1, "key").text(2, "value"));
  bytes.message(8, Bytes().text(1, "my").integer(2, 1));
  const Model model = parse_model(bytes.data(), "m.onnx", nullptr);
  EXPECT_EQ(model.origin, "m.onnx");
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.producer, "maker");
  EXPECT_EQ(model.producer_version, "1.2");
  EXPECT_EQ(model.domain, "some.domain");
  EXPECT_EQ(model.model_version, 3);
  ASSERT_EQ(model.metadata.size(), 1u);
  EXPECT_EQ(model.metadata[0].second, "value");
  EXPECT_EQ(opset_version(model.imports, ""), 18);
  EXPECT_EQ(opset_version(model.imports, "ai.onnx"), 18);
  EXPECT_EQ(opset_version(model.imports, "my"), 1);
  EXPECT_EQ(opset_version(model.imports, "other"), std::nullopt);
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  EXPECT_EQ(model.graph.nodes[0].op_type, "Relu");
  EXPECT_EQ(model.graph.nodes[0].name, "act");
  const Function* found = model.find_function("my", "F", "");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->attributes.at(0), "alpha");
  EXPECT_EQ(found->defaults.at(0).name, "beta");
  EXPECT_EQ(*found->defaults.at(0).get_if<float>(), 0.5f);
  EXPECT_EQ(opset_version(found->imports, ""), 17);
  EXPECT_EQ(model.find_function("", "F", ""), nullptr);
}

TEST(Reader, KeepsSizesAsNumbersNamesOrUnknown) {
  const Bytes shape = Bytes()
                          .message(1, Bytes().integer(1, 3))
                          .message(1, Bytes().text(2, "N"))
                          .message(1, Bytes())
                          .message(1, Bytes().integer(1, -1));
  const Bytes type = Bytes().message(1, Bytes().integer(1, 10).message(2, shape));
  const Bytes bytes = relu_model(Bytes().message(13, Bytes().text(1, "y").message(2, type)));
  const Model model = parse_model(bytes.data(), "m.onnx", nullptr);
  const ValueType& read = model.graph.value_infos.at(0).type;
  EXPECT_EQ(read.kind, ValueType::Kind::tensor);
  EXPECT_EQ(read.element, ElementType::f16);
  ASSERT_EQ(read.extents->size(), 4u);
  EXPECT_EQ((*read.extents)[0].value, 3);
  EXPECT_EQ((*read.extents)[1].symbol, "N");
  EXPECT_LT((*read.extents)[2].value, 0);
  EXPECT_LT((*read.extents)[3].value, 0);
  EXPECT_FALSE(model.graph.inputs.at(0).type.extents.has_value());
}

TEST(Reader, KeepsContainersAndTheirItems) {
  const Bytes tensor = Bytes().message(1, Bytes().integer(1, 8));
  const Bytes map = Bytes().message(5, Bytes().integer(1, 7).message(2, tensor));
  const Bytes sequence = Bytes().message(4, Bytes().message(1, map));
  const Bytes type = Bytes().message(9, Bytes().message(1, sequence));
  const Bytes bytes = relu_model(Bytes().message(13, Bytes().text(1, "y").message(2, type)));
  const Model model = parse_model(bytes.data(), "m.onnx", nullptr);
  const ValueType& read = model.graph.value_infos.at(0).type;
  EXPECT_EQ(read.kind, ValueType::Kind::optional);
  EXPECT_EQ(read.item->kind, ValueType::Kind::sequence);
  EXPECT_EQ(read.item->item->kind, ValueType::Kind::map);
  EXPECT_EQ(read.item->item->element, ElementType::i64);
  EXPECT_EQ(read.item->item->item->element, ElementType::string);
}

TEST(Reader, ReadsEveryKindOfAttribute) {
  using Kind = Attribute::Kind;
  const auto attribute = [](int64_t type) { return Bytes().text(1, "a").integer(20, type); };
  EXPECT_EQ(*read_attribute(attribute(1).number(2, 1.5f)).get_if<float>(), 1.5f);
  EXPECT_EQ(*read_attribute(attribute(2).integer(3, -7)).get_if<int64_t>(), -7);
  EXPECT_EQ(*read_attribute(attribute(3).text(4, "s")).get_if<std::string_view>(), "s");
  EXPECT_EQ(read_attribute(attribute(6).floats(7, {1, 2})).get_if<std::vector<float>>()->at(1), 2);
  // Packed, one by one, and mixed.
  const Bytes mixed = attribute(7).integer(8, 1).integers(8, {2, 3});
  EXPECT_EQ(*read_attribute(mixed).get_if<std::vector<int64_t>>(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(read_attribute(attribute(8).text(9, "a").text(9, "b")).kind(), Kind::texts);
  const Bytes tensor = tensor_bytes("t", 7, {1}).integers(7, {5});
  EXPECT_EQ(read_attribute(attribute(4).message(5, tensor)).kind(), Kind::tensor);
  EXPECT_EQ(read_attribute(attribute(9).message(10, tensor)).kind(), Kind::tensors);
  EXPECT_EQ(read_attribute(attribute(5).message(6, Bytes().text(2, "g"))).kind(), Kind::graph);
  EXPECT_EQ(read_attribute(attribute(10).message(11, Bytes())).kind(), Kind::graphs);
  EXPECT_EQ(read_attribute(attribute(13).message(14, Bytes())).kind(), Kind::type);
  EXPECT_EQ(read_attribute(attribute(12).message(23, Bytes())).kind(), Kind::other);
  EXPECT_EQ(read_attribute(attribute(2).text(21, "outer")).reference, "outer");
  // Some writers omit zero; the oldest omit the type.
  EXPECT_EQ(*read_attribute(attribute(2)).get_if<int64_t>(), 0);
  EXPECT_EQ(*read_attribute(Bytes().text(1, "a").integer(3, 4)).get_if<int64_t>(), 4);
}

TEST(Reader, WeightsStayInTheFile) {
  const TestFolder folder;
  const Bytes weight =
      tensor_bytes("w", 1, {2}).text(9, std::string_view("\0\0\x80\x3f\0\0\0\x40", 8));
  const std::string path = folder.write("m.onnx", relu_model(Bytes().message(5, weight)).data());
  const Model model = read_model(path);
  const auto map = std::static_pointer_cast<const FileMap>(model.owners.at(0));
  const std::span<const std::byte> bytes = model.graph.initializers.at(0).bytes;
  EXPECT_EQ(bytes.size(), 8u);
  EXPECT_GE(bytes.data(), map->bytes().data());
  EXPECT_LE(bytes.data() + bytes.size(), map->bytes().data() + map->bytes().size());
  EXPECT_EQ(to_tensor(model.graph.initializers[0]).elements<float>()[1], 2.0f);
  const Tensor shared = to_tensor(model.graph.initializers[0], Misaligned::keep);
  EXPECT_EQ(shared.data(), bytes.data());
  const std::optional<FilePlace> place = file_place(model, model.graph.initializers[0]);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->file, path);
  EXPECT_EQ(FileMap::open(path)->bytes().data()[place->offset + 7], std::byte{0x40});
}

TEST(Reader, TypedListsHaveNoPlaceInTheFile) {
  const TestFolder folder;
  const Bytes weight = tensor_bytes("w", 7, {1}).integers(7, {5});
  const Model model =
      read_model(folder.write("m.onnx", relu_model(Bytes().message(5, weight)).data()));
  EXPECT_FALSE(file_place(model, model.graph.initializers.at(0)).has_value());
}

TEST(Reader, ErrorsInANodeNameIt) {
  const Bytes tensor = tensor_bytes("bad", 1, {3}).text(9, "12345678");
  const Bytes attribute = Bytes().text(1, "value").integer(20, 4).message(5, tensor);
  const Bytes node = node_bytes("Constant", {}, {"c"}, "k").message(5, attribute);
  EXPECT_EQ(error_in(relu_model(Bytes().message(1, node))),
            "InvalidModel: tensor 'bad': f32[3] needs 12 bytes, but the file has 8\n"
            "  in m.onnx, node 1 (Constant 'k', opset 18)");
  EXPECT_EQ(error_in(model_with_attribute(Bytes().text(1, "a").integer(20, 99))),
            "InvalidModel: attribute 'a' has type 99 and no value, expected 1 to 14\n"
            "  in m.onnx, node 0 (Op, opset 18)");
  EXPECT_EQ(error_in(model_with_attribute(Bytes().text(1, "a").integer(20, 4))),
            "InvalidModel: attribute 'a' is declared as TENSOR, but has no such value\n"
            "  in m.onnx, node 0 (Op, opset 18)");
  EXPECT_EQ(error_in(relu_model(Bytes().message(1, Bytes().text(1, "x")))),
            "InvalidModel: node 1 has no op type\n"
            "  in m.onnx, node 1 (without op type, opset 18)");
  Bytes twice = node_bytes("Op", {}, {"z"});
  for (int i = 0; i < 2; ++i) twice.message(5, Bytes().text(1, "k\n").integer(3, 1));
  EXPECT_EQ(error_in(relu_model(Bytes().message(1, twice))),
            "InvalidModel: attribute 'k\\x0a' is defined twice\n"
            "  in m.onnx, node 1 (Op, opset 18)");
}

TEST(Reader, UnsupportedFeaturesAreNamed) {
  const Bytes sparse = Bytes().message(8, Bytes().integer(1, 1));
  EXPECT_EQ(error_in(relu_model(Bytes().message(11, Bytes().text(1, "s").message(2, sparse)))),
            "Unsupported: 's' is a sparse tensor, which is not supported");
  EXPECT_EQ(error_in(relu_model(Bytes().message(11, value_bytes("s", 27)))),
            "Unsupported: 's' has data type 27 (FLOAT6), which is not supported");
  EXPECT_EQ(error_in(relu_model(Bytes().message(11, value_bytes("s", 99)))),
            "InvalidModel: 's' has data type 99, expected 1 to 26");
}

TEST(Reader, ACutFileIsRefusedAtEveryLength) {
  const Bytes weight = tensor_bytes("w", 1, {2}).text(9, "12345678");
  const std::string whole = relu_model(Bytes().message(5, weight)).data();
  ASSERT_EQ(error_of([&] { parse_model(whole, "m.onnx", nullptr); }), "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    // On the heap and without slack, so that a sanitizer finds reads beyond the end.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const std::string error =
        error_of([&] { parse_model({cut.data(), cut.size()}, "m.onnx", nullptr); });
    EXPECT_TRUE(error.starts_with("InvalidModel: ")) << size << ": " << error;
  }
}

TEST(Reader, AFlippedByteIsAnErrorOrAModel) {
  const Bytes weight = tensor_bytes("w", 1, {2}).text(9, "12345678");
  const std::string whole = relu_model(Bytes().message(5, weight)).data();
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x7f, 0x80, 0xff}) {
      std::vector<char> bytes(whole.begin(), whole.end());
      bytes[at] = static_cast<char>(value);
      const std::string error =
          error_of([&] { parse_model({bytes.data(), bytes.size()}, "m.onnx", nullptr); });
      refused += error == "no error" ? 0 : 1;
      EXPECT_FALSE(error.starts_with("Internal")) << at << ": " << error;
    }
  }
  EXPECT_GT(refused, whole.size());
}

TEST(Reader, ErrorsInGarbageHaveAnOffset) {
  const std::string good = relu_model().data();
  EXPECT_EQ(
      error_of([&] { parse_model(good + "\x3b", "m.onnx", nullptr); }),
      fmt::format("InvalidModel: 'm.onnx' is not a valid ONNX model: at byte {}, in ModelProto, "
                  "a field has an invalid tag or length",
                  good.size()));
  EXPECT_EQ(
      error_of([&] { parse_model(good + "\x12\x7f", "m.onnx", nullptr); }),
      fmt::format("InvalidModel: 'm.onnx' is not a valid ONNX model: at byte {}, in ModelProto, "
                  "a field extends beyond the end",
                  good.size()));
  // A name with the wire type of a number.
  EXPECT_EQ(error_of([&] { parse_model(good + "\x10\x01", "m.onnx", nullptr); }),
            fmt::format("InvalidModel: field 2 of ModelProto has wire type 0, expected 2 (byte {})",
                        good.size()));
}

TEST(Reader, OtherFilesAreRecognised) {
  const auto error = [](std::string_view bytes) {
    return error_of([&] { parse_model(bytes, "m.onnx", nullptr); });
  };
  EXPECT_EQ(error(""),
            "InvalidModel: 'm.onnx' (0 bytes) is not an ONNX model: it looks like an empty file");
  EXPECT_EQ(error("<!DOCTYPE html><html>"),
            "InvalidModel: 'm.onnx' (21 bytes) is not an ONNX model: it looks like an HTML page (a "
            "failed download?)");
  EXPECT_EQ(error("hello, world"),
            "InvalidModel: 'm.onnx' (12 bytes) is not an ONNX model: it looks like a text file");
  EXPECT_EQ(error(std::string_view("\x10\x01", 2)),
            "InvalidModel: field 2 of ModelProto has wire type 0, expected 2 (byte 0)");
  // Protobuf of another message.
  EXPECT_EQ(error(std::string_view("\x08\x01\x10\x01", 4)),
            "InvalidModel: field 2 of ModelProto has wire type 0, expected 2 (byte 2)");
  EXPECT_EQ(error(std::string_view("\x08\x01", 2)),
            "InvalidModel: 'm.onnx' (2 bytes) is not an ONNX model: it has no graph");
}

TEST(Reader, NestingIsBounded) {
  Bytes graph = Bytes().text(2, "innermost");
  for (int i = 0; i < 80; ++i) {
    const Bytes attribute = Bytes().text(1, "body").integer(20, 5).message(6, graph);
    graph = Bytes().message(1, node_bytes("Loop", {}, {"y"}).message(5, attribute));
  }
  const std::string error = error_in(model_bytes(graph));
  EXPECT_TRUE(error.starts_with("InvalidModel: subgraphs nest deeper than 64 levels"))
      << error.substr(0, 200);
  EXPECT_LE(error.size(), 64u * 1024);
  Bytes type;
  for (int i = 0; i < 200; ++i) type = Bytes().message(4, Bytes().message(1, type));
  EXPECT_TRUE(error_in(relu_model(Bytes().message(11, Bytes().text(1, "s").message(2, type))))
                  .starts_with("InvalidModel: messages nest deeper than 200 levels"));
}

TEST(Reader, SmallFilesNeedLittleMemory) {
  std::string values;
  for (int i = 0; i < 2'000'001; ++i) values += std::string_view("\x6a\x03\x0a\x01v", 5);
  const std::string error = error_in(model_bytes(Bytes().raw(values)));
  EXPECT_TRUE(error.starts_with("InvalidModel: 'm.onnx' has more than 2000000 nodes")) << error;
  EXPECT_EQ(error_in(relu_model(Bytes().message(13, Bytes()))).substr(0, 43),
            "InvalidModel: the value at byte 50 has no n");
}

TEST(Reader, AVersionIsRequired) {
  EXPECT_EQ(error_in(Bytes().message(7, Bytes())),
            "InvalidModel: 'm.onnx' has ir_version 0, expected 1 to 14");
}

TEST(Reader, AMissingFileIsIo) {
  EXPECT_EQ(error_of([] { read_model("/nonexistent/m.onnx"); }),
            "Io: cannot open '/nonexistent/m.onnx': No such file or directory");
}

}  // namespace
}  // namespace lathe::onnx

// SPDX-License-Identifier: MIT
#include "import/onnx/tensor_proto.h"

#include <gtest/gtest.h>

#include <cstring>

#include "import/onnx/external_data.h"
#include "tests/import/onnx/model_bytes.h"
#include "tests/support/errors.h"
#include "tests/support/folder.h"

namespace lathe::onnx {
namespace {

// Reads a TensorProto; keeps its bytes, so that the tensor may point into them.
Tensor read(const Bytes& bytes) {
  auto keep = std::make_shared<std::string>(bytes.data());
  const TensorSource source{keep, nullptr};
  return parse_stored_value(*keep, "t.pb", ValueType::Kind::tensor, source).value.tensor();
}
std::string error_in(const Bytes& bytes) {
  return error_of([&] { read(bytes); });
}

template <class T>
std::vector<T> values(const Tensor& tensor) {
  const std::span<T> elements = tensor.elements<T>();
  return {elements.begin(), elements.end()};
}

std::string raw_of(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.byte_size())};
}

TEST(TensorProto, ReadsTypedLists) {
  EXPECT_EQ(values<float>(read(tensor_bytes("t", 1, {2}).floats(4, {1.5f, -2}))),
            (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(values<double>(read(tensor_bytes("t", 11, {1}).doubles(10, {0.1}))),
            (std::vector<double>{0.1}));
  EXPECT_EQ(values<int64_t>(read(tensor_bytes("t", 7, {2}).integers(7, {-1, 1LL << 40}))),
            (std::vector<int64_t>{-1, 1LL << 40}));
  EXPECT_EQ(values<uint64_t>(read(tensor_bytes("t", 13, {1}).integers(11, {-1}))),
            (std::vector<uint64_t>{UINT64_MAX}));
  EXPECT_EQ(values<uint32_t>(read(tensor_bytes("t", 12, {1}).integers(11, {4000000000LL}))),
            (std::vector<uint32_t>{4000000000U}));
  EXPECT_EQ(values<int32_t>(read(tensor_bytes("t", 6, {2}).integers(5, {-5, 7}))),
            (std::vector<int32_t>{-5, 7}));
  EXPECT_EQ(values<int8_t>(read(tensor_bytes("t", 3, {2}).integers(5, {-128, 127}))),
            (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(values<uint16_t>(read(tensor_bytes("t", 10, {2}).integers(5, {0x3c00, 0xc000}))),
            (std::vector<uint16_t>{0x3c00, 0xc000}));
  EXPECT_EQ(values<uint8_t>(read(tensor_bytes("t", 9, {3}).integers(5, {0, 1, 2}))),
            (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(values<float>(read(tensor_bytes("t", 14, {1}).floats(4, {1, 2}))).size(), 1u);
}

TEST(TensorProto, ReadsTypesBelowEightBitsAsPackedBytes) {
  // Three elements of four bits: 1, 2, 3, two to an int32.
  EXPECT_EQ(raw_of(read(tensor_bytes("t", 21, {3}).integers(5, {0x21, 0x03}))), "\x21\x03");
  EXPECT_EQ(raw_of(read(tensor_bytes("t", 22, {3}).text(9, "\x21\x03"))), "\x21\x03");
  EXPECT_EQ(raw_of(read(tensor_bytes("t", 25, {5}).text(9, "\xe4\x01"))), "\xe4\x01");
  EXPECT_EQ(raw_of(read(tensor_bytes("t", 23, {1}).text(9, "\x07"))), "\x07");
  EXPECT_EQ(error_in(tensor_bytes("t", 21, {3}).text(9, "\x21")),
            "InvalidModel: tensor 't': u4[3] needs 2 bytes, but the file has 1");
}

TEST(TensorProto, ReadsListsInPieces) {
  const Bytes bytes = tensor_bytes("t", 1, {4}).floats(4, {1}).number(4, 2).floats(4, {3, 4});
  EXPECT_EQ(values<float>(read(bytes)), (std::vector<float>{1, 2, 3, 4}));
  const Bytes strings = tensor_bytes("t", 8, {2}).text(6, "").text(6, std::string_view("a\0b", 3));
  EXPECT_EQ(values<std::string>(read(strings)), (std::vector<std::string>{"", {"a\0b", 3}}));
}

TEST(TensorProto, EmptyTensorsAndScalarsAreTensors) {
  EXPECT_EQ(read(tensor_bytes("t", 1, {2, 0})).dims(), (Dims{2, 0}));
  EXPECT_EQ(read(tensor_bytes("t", 1, {}).floats(4, {7})).rank(), 0);
  // An empty list of another field.
  EXPECT_EQ(values<float>(read(tensor_bytes("t", 1, {1}).integers(7, {}).floats(4, {7})))[0], 7);
  // The other sizes of an empty tensor are bounded: kernels walk them.
  EXPECT_EQ(read(tensor_bytes("t", 1, {int64_t{1} << 32, 0})).count(), 0);
  const std::string_view refused = "has no elements, but its other sizes multiply to more than";
  EXPECT_NE(error_in(tensor_bytes("t", 1, {INT64_MAX, INT64_MAX, 0})).find(refused),
            std::string::npos);
  EXPECT_NE(error_in(tensor_bytes("t", 1, {0, int64_t{1} << 62})).find(refused), std::string::npos);
}

TEST(TensorProto, SharesTheFilesMemoryWhereItIsAligned) {
  const std::string_view raw("\0\0\x80\x3f\0\0\0\x40", 8);
  for (size_t shift = 0; shift < 4; ++shift) {
    alignas(8) std::array<char, 16> memory{};
    std::memcpy(memory.data() + shift, raw.data(), raw.size());
    TensorData data;
    data.dims = {2};
    data.bytes = std::as_bytes(std::span(memory)).subspan(shift, raw.size());
    const Tensor tensor = to_tensor(data);
    EXPECT_EQ(tensor.data() == memory.data() + shift, shift == 0);
    EXPECT_EQ(values<float>(tensor), (std::vector<float>{1, 2}));
  }
}

TEST(TensorProto, SizesMustAgree) {
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {2, 2}).text(9, "123")),
            "InvalidModel: tensor 'w': f32[2, 2] needs 16 bytes, but the file has 3");
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {2})),
            "InvalidModel: tensor 'w': f32[2] needs 8 bytes, but the file has 0: its elements are "
            "missing");
  EXPECT_EQ(error_in(tensor_bytes("w", 8, {2}).text(6, "a")),
            "InvalidModel: tensor 'w': string[2] needs 2 strings, but the file has 1");
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {-1})),
            "InvalidModel: tensor 'w' has size -1 in f32[-1], expected 0 or more");
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {INT64_MAX, 2}).text(9, "1234")),
            "InvalidModel: tensor 'w' of f32[9223372036854775807, 2] has more elements than memory "
            "has addresses");
  EXPECT_EQ(
      error_in(tensor_bytes("w", 15, {1LL << 60}).text(9, "1234")),
      "InvalidModel: tensor 'w' of c128[1152921504606846976] has more elements than memory has "
      "addresses");
  Bytes deep;
  for (int i = 0; i < 17; ++i) deep.integer(1, 1);
  EXPECT_EQ(error_in(deep.integer(2, 1)),
            "Unsupported: tensor '' has rank 17, at most 16 is supported");
}

TEST(TensorProto, FieldsMustFitTheType) {
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {1}).integers(7, {1})),
            "InvalidModel: tensor 'w' of f32 has its elements in int64_data, expected raw_data or "
            "float_data");
  EXPECT_EQ(error_in(tensor_bytes("w", 8, {1}).text(9, "a")),
            "InvalidModel: tensor 'w' of string has its elements in raw_data, expected "
            "string_data");
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {1}).text(9, "1234").floats(4, {1})),
            "InvalidModel: tensor 'w' has elements in both raw_data and float_data, expected one "
            "of them");
  EXPECT_EQ(error_in(tensor_bytes("w", 3, {2}).integers(5, {1, 300})),
            "InvalidModel: tensor 'w': element 1 is 300, which i8 cannot hold");
  EXPECT_EQ(error_in(tensor_bytes("w", 0, {1})),
            "InvalidModel: tensor 'w' has data type 0, expected 1 to 26");
  EXPECT_EQ(error_in(tensor_bytes("w", 28, {1})),
            "Unsupported: tensor 'w' has data type 28 (FLOAT6), which is not supported");
  EXPECT_EQ(error_in(tensor_bytes("w", 1, {1}).message(3, Bytes())),
            "Unsupported: tensor 'w' is one segment of a tensor stored in pieces, which is not "
            "supported");
}

TEST(TensorProto, WritesWhatItReads) {
  const std::vector<Bytes> all = {
      tensor_bytes("t", 1, {2}).floats(4, {1.5f, -2}),
      tensor_bytes("t", 8, {2}).text(6, "a").text(6, ""),
      tensor_bytes("t", 22, {3}).text(9, "\x21\x03"),
      tensor_bytes("t", 9, {2, 0}),
      tensor_bytes("t", 15, {}).doubles(10, {1, 2}),
  };
  for (const Bytes& bytes : all) {
    const Tensor tensor = read(bytes);
    const std::string written = write_tensor_proto(tensor, "name");
    const StoredValue again =
        parse_stored_value(written, "t.pb", ValueType::Kind::tensor, TensorSource{});
    EXPECT_EQ(again.name, "name");
    EXPECT_TRUE(identical(again.value.tensor(), tensor)) << to_string(tensor.type(), tensor.dims());
  }
}

// The bytes of the onnx package's make_tensor("name", FLOAT16, [2], …, raw=True), except for the
// order of fields.
TEST(TensorProto, WritesTheBytesOfTheFormat) {
  Tensor tensor(ElementType::f16, {2});
  tensor.elements<uint16_t>()[0] = 0x3c00;
  tensor.elements<uint16_t>()[1] = 0xc000;
  EXPECT_EQ(write_tensor_proto(tensor, "n"),
            std::string_view("\x08\x02\x10\x0a\x42\x01n\x4a\x04\x00\x3c\x00\xc0", 13));
}

TEST(StoredValue, SequencesAndOptionalsNest) {
  const Bytes one = tensor_bytes("", 7, {}).integers(7, {1});
  const Bytes two = tensor_bytes("", 7, {}).integers(7, {2});
  const Bytes sequence = Bytes().text(1, "s").integer(2, 1).message(3, one).message(3, two);
  const StoredValue list =
      parse_stored_value(sequence.data(), "s.pb", ValueType::Kind::sequence, {});
  EXPECT_EQ(list.name, "s");
  ASSERT_EQ(list.value.sequence().size(), 2u);
  EXPECT_EQ(list.value.sequence()[1].tensor().elements<int64_t>()[0], 2);
  const Bytes optional = Bytes().text(1, "o").integer(2, 3).message(5, sequence);
  const StoredValue some =
      parse_stored_value(optional.data(), "o.pb", ValueType::Kind::optional, {});
  EXPECT_EQ(some.value.sequence().size(), 2u);
  const Bytes nothing = Bytes().text(1, "o").integer(2, 0);
  EXPECT_TRUE(
      parse_stored_value(nothing.data(), "o.pb", ValueType::Kind::optional, {}).value.empty());
}

TEST(StoredValue, MapsAreOrderedByKey) {
  const auto number = [](float value) { return tensor_bytes("", 1, {}).floats(4, {value}); };
  const Bytes values = Bytes().integer(2, 1).message(3, number(1)).message(3, number(2));
  const Bytes map = Bytes().text(1, "m").integer(2, 8).text(4, "b").text(4, "a").message(5, values);
  const Box box = parse_stored_value(map.data(), "m.pb", ValueType::Kind::map, {}).value;
  const auto& read_map = *std::get<std::shared_ptr<const BoxMap>>(box.value);
  EXPECT_EQ(read_map.keys.elements<std::string>()[0], "a");
  EXPECT_EQ(read_map.values[0].tensor().elements<float>()[0], 2);
}

TEST(StoredValue, ContradictionsAreRefused) {
  const auto error = [](const Bytes& bytes, ValueType::Kind kind) {
    return error_of([&] { parse_stored_value(bytes.data(), "x.pb", kind, {}); });
  };
  EXPECT_EQ(error(Bytes().text(1, "o").integer(2, 1), ValueType::Kind::optional),
            "InvalidModel: optional 'o' has element type 1 but no value");
  EXPECT_EQ(error(Bytes().integer(2, 7).integers(3, {1}), ValueType::Kind::map),
            "InvalidModel: map '' has 1 keys but 0 values");
  EXPECT_EQ(error(Bytes().integer(2, 1).integers(3, {1}), ValueType::Kind::map),
            "InvalidModel: key of map '' is f32, expected an integer or a string");
  EXPECT_EQ(error(Bytes().message(4, Bytes()), ValueType::Kind::sequence),
            "Unsupported: SequenceProto at byte 0 has a sparse tensor, which is not supported");
  EXPECT_EQ(error(Bytes().raw("\x0f"), ValueType::Kind::tensor),
            "InvalidModel: 'x.pb' is not a valid TensorProto: at byte 0, in TensorProto, a field "
            "has an invalid tag "
            "or length");
  Bytes deep;
  for (int i = 0; i < 300; ++i) deep = Bytes().message(5, deep);
  EXPECT_EQ(error(deep, ValueType::Kind::sequence).substr(0, 51),
            "InvalidModel: messages nest deeper than 200 levels,");
}

TEST(StoredValue, FilesAreNamed) {
  const TestFolder folder;
  const std::string path = folder.write("input_0.pb", tensor_bytes("w", 1, {2}).data());
  EXPECT_EQ(error_of([&] { read_stored_value(path, ValueType::Kind::tensor); }),
            "InvalidModel: tensor 'w': f32[2] needs 8 bytes, but the file has 0: its elements are "
            "missing\n  in " +
                path + ", read as a TensorProto");
}

}  // namespace
}  // namespace lathe::onnx

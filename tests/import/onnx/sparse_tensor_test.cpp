// SPDX-License-Identifier: MIT
#include "import/onnx/sparse_tensor.h"

#include <gtest/gtest.h>

#include "import/onnx/reader.h"
#include "tests/import/onnx/model_bytes.h"
#include "tests/support/errors.h"

namespace lathe::onnx {
namespace {

using Indices = std::initializer_list<int64_t>;

// A model with the sparse initialiser w f32[2, 3] of values 5 and 7.
std::string sparse_model(Indices index_dims, Indices indices, Indices dims = {2, 3}) {
  const Bytes values = tensor_bytes("w", 1, {2}).floats(4, {5, 7});
  Bytes sparse;
  sparse.message(1, values).message(2, tensor_bytes("", 7, index_dims).integers(7, indices));
  return relu_model(Bytes().message(15, sparse.integers(3, dims))).data();
}

std::vector<float> dense(const std::string& bytes) {
  const Model model = parse_model(bytes, "m.onnx", nullptr);
  const Tensor w = to_tensor(model.graph.initializers.at(0));
  EXPECT_EQ(w.dims(), (Dims{2, 3}));
  return {w.as<float>(), w.as<float>() + w.count()};
}

std::string error_in(const std::string& bytes) {
  return error_of([&] { parse_model(bytes, "m.onnx", nullptr); });
}

TEST(SparseTensor, IsReadAsADenseOne) {
  EXPECT_EQ(dense(sparse_model({2}, {1, 5})), (std::vector<float>{0, 5, 0, 0, 0, 7}));
  EXPECT_EQ(dense(sparse_model({2, 2}, {0, 2, 1, 0})), (std::vector<float>{0, 0, 5, 7, 0, 0}));
}

TEST(SparseTensor, RefusesWrongIndices) {
  const std::string head = "InvalidModel: sparse tensor 'w' of f32[2, 3]: index ";
  EXPECT_EQ(error_in(sparse_model({2}, {1, 6})),
            head + "6 of value 1 is out of range, expected 0 to 5");
  EXPECT_EQ(error_in(sparse_model({2}, {-1, 5})),
            head + "-1 of value 0 is out of range, expected 0 to 5");
  EXPECT_EQ(error_in(sparse_model({2, 2}, {0, 0, 1, 3})),
            head + "3 of value 1 is out of range, expected 0 to 2");
  for (const Indices wrong : {Indices{3, 3}, Indices{4, 1}}) {
    EXPECT_EQ(
        error_in(sparse_model({2}, wrong)),
        "InvalidModel: sparse tensor 'w': the index of value 1 is not above that of the value "
        "before");
  }
  EXPECT_EQ(
      error_in(sparse_model({3}, {1, 2, 3})),
      "InvalidModel: sparse tensor 'w' of f32[2, 3] has 2 values and indices i64[3], expected "
      "one index per value");
}

TEST(SparseTensor, RefusesAShapeThatFillsMemory) {
  EXPECT_EQ(error_in(sparse_model({2}, {1, 2}, {int64_t{1} << 20, int64_t{1} << 20})),
            "Unsupported: sparse tensor 'w' of f32[1048576, 1048576] has 4398046511104 bytes as a "
            "dense one, at most 1073741824 are supported");
}

}  // namespace
}  // namespace lathe::onnx

// SPDX-License-Identifier: MIT
// Large constants of mapped files, whose pages leave memory while they are read.
#if defined(__x86_64__)
#include <gtest/gtest.h>

#include <cstring>

#include "base/file_map.h"
#include "ir/literal.h"
#include "targets/cpu/gemm.h"
#include "tests/support/folder.h"

namespace lathe::cpu {
namespace {

// [rows, columns] of f32 as an array and in a file.
struct Matrix {
  Matrix(int64_t rows, int64_t columns) : plain(ElementType::f32, {rows, columns}) {
    for (int64_t i = 0; i < plain.count(); ++i) {
      plain.as<float>()[i] = static_cast<float>(i * 2654435761 % 100003);
    }
    file = FileMap::open(
        folder.write("weights", {plain.as<char>(), static_cast<size_t>(plain.byte_size())}));
    mapped = Tensor(ElementType::f32, {rows, columns}, Tensor::dense_strides(plain.dims()),
                    const_cast<std::byte*>(file->bytes().data()), nullptr);
  }
  TestFolder folder;
  std::shared_ptr<const FileMap> file;
  Tensor plain, mapped;
};

constexpr int64_t kRows = 300, kColumns = 17003;  // 20 MB

void expect_packed_alike(const Matrix& matrix, bool transposed, GemmType type) {
  const Isa isa = Isa::avx2;
  const PackedMatrix packed(matrix.mapped, transposed, type, isa);
  const BrgemmKernel& kernel = brgemm_kernel(isa, type);
  const int64_t rows = matrix.plain.dims()[0], columns = matrix.plain.dims()[1];
  PackSource source{matrix.plain.data(), ElementType::f32, rows, columns, columns, 1};
  if (transposed) source = {matrix.plain.data(), ElementType::f32, columns, rows, 1, columns};
  const auto bytes = static_cast<size_t>(packed_layout(kernel, type, source.k, source.n).bytes);
  ASSERT_EQ(packed.bytes(), bytes);
  Tensor expected(ElementType::u8, {static_cast<int64_t>(bytes)});
  std::memset(expected.data(), 0, bytes);
  pack_b(kernel, type, source, expected.data(), nullptr);
  EXPECT_EQ(std::memcmp(packed.data(), expected.data(), bytes), 0)
      << (transposed ? "transposed" : "as stored");
}

TEST(LargeWeights, PackInBlocksAsAtOnce) {
  const Matrix wide(kRows, kColumns), tall(kColumns, kRows);
  for (const GemmType type : {GemmType::f32, GemmType::bf16}) {
    expect_packed_alike(wide, false, type);
    expect_packed_alike(tall, true, type);
    expect_packed_alike(wide, true, type);
  }
}

TEST(LargeWeights, HashInBlocksAsAtOnce) {
  const Matrix matrix(kRows, kColumns);
  Literal mapped, plain;
  mapped.tensor = matrix.mapped;
  plain.tensor = matrix.plain;
  EXPECT_EQ(mapped.hash(), plain.hash());
  plain.tensor.as<float>()[kRows * kColumns - 1] += 1;
  Literal changed;
  changed.tensor = matrix.plain;
  EXPECT_NE(mapped.hash(), changed.hash());
}

}  // namespace
}  // namespace lathe::cpu
#endif

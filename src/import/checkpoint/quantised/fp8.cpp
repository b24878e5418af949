// SPDX-License-Identifier: MIT
#include "import/checkpoint/quantised/fp8.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::checkpoint {
namespace {

constexpr int64_t kBlock = 128;

Tensor floats_of(const StoredTensor& stored) {
  const Tensor plain = plain_tensor(stored, stored.stored_name);
  Tensor out(ElementType::f32, plain.dims());
  convert(ElementType::f32, out.data(), plain.type(), plain.data(), plain.count());
  return out;
}

Tensor read_fp8(const StoredTensor& codes, const StoredTensor& scales, int64_t block_rows,
                int64_t block_columns) {
  const int64_t rows = codes.dims[0], columns = codes.dims[1];
  const Tensor from = plain_tensor(codes, codes.stored_name);
  const Tensor factors = floats_of(scales);
  const int64_t across = (columns + block_columns - 1) / block_columns;
  Tensor out(ElementType::bf16, codes.dims);
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    convert(ElementType::f32, row.data(), from.type(), from.as<uint8_t>() + r * columns, columns);
    const float* of_row = factors.as<float>() + r / block_rows * across;
    for (int64_t i = 0; i < columns; ++i) row[static_cast<size_t>(i)] *= of_row[i / block_columns];
    convert(ElementType::bf16, out.as<uint16_t>() + r * columns, ElementType::f32, row.data(),
            columns);
  }
  return out;
}

// Each has the weight's scales in a tensor of its own.
constexpr std::string_view kScales[] = {".weight_scale_inv", ".weight_scale"};

void join_fp8(const Config& config, Weights& weights) {
  std::vector<int64_t> block = config.integers("weight_block_size");
  if (block.size() != 2) block = {kBlock, kBlock};
  for (const std::string_view suffix : kScales) {
    for_names_ending(weights, suffix, [&](const std::string& stem) {
      join_fp8_matrix(weights, stem, stem + std::string(suffix), block[0], block[1]);
      for (const char* unused : {".input_scale", ".activation_scale"}) {
        if (weights.has(stem + unused)) weights.take(stem + unused);
      }
    });
  }
}

const RegisterQuantiser kFp8{
    {"fp8", "one scale, one per row or per block; becomes bf16", join_fp8}};
const RegisterQuantiser kFbgemm{{"fbgemm_fp8", "one scale per row; becomes bf16", join_fp8}};

}  // namespace

bool is_fp8(const StoredTensor& stored) {
  return stored.type == "F8_E4M3" || stored.type == "F8_E5M2";
}

void join_fp8_matrix(Weights& weights, const std::string& stem, const std::string& scales,
                     int64_t block_rows, int64_t block_columns) {
  const std::string name = stem + ".weight";
  const StoredTensor codes = weights.take(name);
  const StoredTensor factors = weights.take(scales);
  check(is_fp8(codes) && codes.rank() == 2, ErrorKind::invalid_model,
        "tensor '{}' is {} [{}], expected 8-bit floats with 2 axes", escape(name), codes.type,
        fmt::join(codes.dims, ", "));
  const int64_t rows = codes.dims[0], columns = codes.dims[1];
  const auto blocks = [](int64_t size, int64_t block) {
    return block > 0 ? (size + block - 1) / block : 0;
  };
  // By shape: a matrix may have as many blocks as rows.
  const Dims by_block = {blocks(rows, block_rows), blocks(columns, block_columns)};
  const int64_t count = element_count(factors.dims);
  if (count == 1) {
    block_rows = std::max<int64_t>(rows, 1);
    block_columns = std::max<int64_t>(columns, 1);
  } else if (factors.dims != by_block) {
    check(count == rows && factors.dims[0] == rows, ErrorKind::invalid_model,
          "tensor '{}' has shape [{}], expected one scale, {} by rows, or [{}] by blocks of {} x "
          "{}",
          escape(scales), fmt::join(factors.dims, ", "), rows, fmt::join(by_block, ", "),
          block_rows, block_columns);
    block_rows = 1;
    block_columns = std::max<int64_t>(columns, 1);
  }
  weights.insert(name, dequantised_tensor(codes, codes.type, codes.dims, [=] {
                   return read_fp8(codes, factors, block_rows, block_columns);
                 }));
}

}  // namespace lathe::checkpoint

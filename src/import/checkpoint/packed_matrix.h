// SPDX-License-Identifier: MIT
// A quantised matrix [rows, columns] in the form that matmul_n_bits reads: element = (code - zero)
// · scale, with a scale and a zero point per block of columns.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace lathe::checkpoint {

struct PackedMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int bits = 0;       // 2, 4 or 8
  int64_t block = 0;  // columns that share a scale
  Tensor codes;       // u8 [rows, bytes], low bits first, the last block padded
  Tensor scales;      // [rows, blocks]
  Tensor zeros;       // f32 [rows, blocks], or packed u8 [rows, bytes]; empty: 2^(bits - 1)
  Tensor order;       // i64 [columns]: which input a column multiplies; empty: its own
};

// A matrix as quantisers write it.
struct QuantisedMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int bits = 0;
  int64_t group = 0;           // columns that share a scale; the last group may be shorter
  std::vector<int32_t> g_idx;  // the group of each column; empty: in order
  Tensor scales;               // [rows, groups]
  std::vector<uint8_t> zeros;  // [rows, groups]; empty: 2^(bits - 1)
  // Codes [count, columns] of consecutive rows, a byte each.
  std::function<void(int64_t first, int64_t count, uint8_t* codes)> read_rows;
};

// Sorts the columns by group. Unsupported for groups that matmul_n_bits cannot hold.
PackedMatrix pack_matrix(const QuantisedMatrix& matrix, std::string_view name);

// f32 [rows, columns], columns in the order of the inputs.
Tensor dequantise(const PackedMatrix& matrix);

}  // namespace lathe::checkpoint

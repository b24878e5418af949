// SPDX-License-Identifier: MIT
// Weights of 8-bit floats with scales: NAME.weight and its scales become bf16.
#pragma once

#include <string>

#include "import/checkpoint/quantised/quantiser.h"

namespace lathe::checkpoint {

// Joins STEM.weight with the tensor of its scales: one, one per row, or one per block of
// `block_rows` × `block_columns`.
void join_fp8_matrix(Weights& weights, const std::string& stem, const std::string& scales,
                     int64_t block_rows, int64_t block_columns);
bool is_fp8(const StoredTensor& stored);

}  // namespace lathe::checkpoint

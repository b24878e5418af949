// SPDX-License-Identifier: MIT
// The quantised matrices of all experts in the form that qmoe reads.
#pragma once

#include <optional>
#include <span>

#include "import/checkpoint/weights.h"

namespace lathe::checkpoint {

struct PackedExperts {
  int64_t bits = 0;
  int64_t block = 0;  // columns that share a scale
  Tensor codes;       // u8 [experts, rows, bytes]
  Tensor scales;      // f32 [experts, rows, blocks]
  Tensor zeros;       // packed u8 [experts, rows, bytes]; empty: 2^(bits - 1)
  Tensor order;       // i32 [experts, columns], which input a column multiplies; empty: its own
};

// The rows of `parts`, one below the other: a stack [experts, rows, columns], or matrices of equal
// sizes. nullopt if one is not quantised, or has a form of its own, an order unlike that of its
// expert's other ones, or zero points that are no codes.
std::optional<PackedExperts> pack_experts(std::span<const StoredTensor* const> parts,
                                          int64_t experts);
// The rows of `first`, gates and values, in the order of the inputs of `second`, which then needs
// none. `alternating`: rows of gates and values alternate.
void sort_rows(PackedExperts& first, PackedExperts& second, bool alternating);

}  // namespace lathe::checkpoint

// SPDX-License-Identifier: MIT
// Weights of 16 bits under f32 GEMMs: the constants that deferred casts, transposes and joins of
// columns read.
#pragma once

#include <optional>
#include <vector>

#include "ir/program.h"
#include "tensor/tensor.h"

namespace lathe::cpu {

struct HalfSource {
  std::vector<const Tensor*>
      parts;                // all bf16 or all f16, rank 2; the columns of one after another
  bool transposed = false;  // all parts, of the operand
};
// Parts that are joined have whole panels on every instruction set.
inline constexpr int64_t kJoinedColumns = 64;
// The source of a matmul's or gemm's second operand, f32, which its kernel then packs; none for
// others.
std::optional<HalfSource> half_source(const Instruction& matmul);

}  // namespace lathe::cpu

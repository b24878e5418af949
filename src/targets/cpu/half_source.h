// SPDX-License-Identifier: MIT
// Weights of 16 bits under f32 GEMMs: the constant that deferred casts and transposes read.
#pragma once

#include <optional>

#include "ir/program.h"
#include "tensor/tensor.h"

namespace lathe::cpu {

struct HalfSource {
  const Tensor* matrix = nullptr;  // bf16 or f16, rank 2
  bool transposed = false;         // of the operand
};
// The source of a matmul's or gemm's second operand, f32, which its kernel then packs; none for
// others.
std::optional<HalfSource> half_source(const Instruction& matmul);

}  // namespace lathe::cpu

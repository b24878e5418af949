// SPDX-License-Identifier: MIT
// Searches and sums over the logits of one sequence, per instruction set.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Results have the same bits on every instruction set. NaN counts as -infinity.
struct TokenOps {
  static constexpr int64_t kBlock = 64;  // elements
  // The largest element of each block; returns the largest of all.
  float (*block_maxima)(const float* x, int64_t count, float* maxima);
  // Σ exp(x - shift), in f64; no x exceeds `shift`.
  double (*exp_sum)(const float* x, int64_t count, double shift);
};
const TokenOps& token_ops(Isa isa);

}  // namespace lathe::cpu

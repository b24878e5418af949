// SPDX-License-Identifier: MIT
// Folds of f32 rows into one value and of several rows into one, per instruction set.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

enum class Fold : uint8_t { sum, sum_abs, sum_square, max, min };  // max, min: NaN if any is NaN

// The value before the first element.
double fold_start(Fold fold);
double folded(Fold fold, double a, double b);

// Accumulators are f64, added in an order that depends on the count only: the same bits on every
// instruction set.
struct ReduceOps {
  double (*row)(Fold fold, const float* x, int64_t count);
  // to[i] = to[i] folded with x[i].
  void (*columns)(Fold fold, const float* x, double* to, int64_t count);
};
const ReduceOps& reduce_ops(Isa isa);

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/reduce_ops.h"

#include <limits>

#include "targets/cpu/kernels/elementwise/reduce_ops_table.h"

namespace lathe::cpu {

double fold_start(Fold fold) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return fold == Fold::max ? -kInfinity : fold == Fold::min ? kInfinity : 0;
}

double folded(Fold fold, double a, double b) {
  if (fold == Fold::max) return b > a || b != b ? b : a;
  if (fold == Fold::min) return b < a || b != b ? b : a;
  return a + b;
}

[[gnu::weak]] extern const ReduceOps kReduceOpsAvx2, kReduceOpsAvx512;

const ReduceOps& reduce_ops(Isa isa) {
  return *in_build(isa >= Isa::avx512 ? &kReduceOpsAvx512 : &kReduceOpsAvx2, isa);
}

}  // namespace lathe::cpu

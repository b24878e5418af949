// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/vector_ops.h"

#include "targets/cpu/kernels/elementwise/vector_ops_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const VectorOps kVectorOpsAvx2, kVectorOpsAvx512;

const VectorOps& vector_ops(Isa isa) {
  return *in_build(isa >= Isa::avx512 ? &kVectorOpsAvx512 : &kVectorOpsAvx2, isa);
}

}  // namespace lathe::cpu

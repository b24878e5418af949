// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/vector_ops.h"

#include "targets/cpu/kernels/elementwise/vector_ops_table.h"

namespace lathe::cpu {

const VectorOps& vector_ops(Isa isa) {
  return isa >= Isa::avx512 ? kVectorOpsAvx512 : kVectorOpsAvx2;
}

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/row_ops.h"

#include "targets/cpu/kernels/elementwise/row_ops_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const RowOps kRowOpsAvx2, kRowOpsAvx512;

const RowOps& row_ops(Isa isa) {
  return *in_build(isa >= Isa::avx512 ? &kRowOpsAvx512 : &kRowOpsAvx2, isa);
}

}  // namespace lathe::cpu

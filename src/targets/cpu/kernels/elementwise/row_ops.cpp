// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/row_ops.h"

#include "targets/cpu/kernels/elementwise/row_ops_table.h"

namespace lathe::cpu {

const RowOps& row_ops(Isa isa) { return isa >= Isa::avx512 ? kRowOpsAvx512 : kRowOpsAvx2; }

}  // namespace lathe::cpu

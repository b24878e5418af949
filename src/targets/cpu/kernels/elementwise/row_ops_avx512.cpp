// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/row_ops_kernel.h"

namespace lathe::cpu {

const RowOps kRowOpsAvx512 = kRowOps;

}  // namespace lathe::cpu

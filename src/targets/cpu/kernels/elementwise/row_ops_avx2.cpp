// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/row_ops_kernel.h"

namespace lathe::cpu {

const RowOps kRowOpsAvx2 = kRowOps;

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/reduce_ops_kernel.h"

namespace lathe::cpu {

const ReduceOps kReduceOpsAvx2 = kReduceOps;

}  // namespace lathe::cpu

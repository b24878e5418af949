// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/reduce_ops_kernel.h"

namespace lathe::cpu {

const ReduceOps kReduceOpsAvx512 = kReduceOps;

}  // namespace lathe::cpu

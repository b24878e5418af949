// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/vector_ops_kernel.h"

namespace lathe::cpu {

const VectorOps kVectorOpsAvx512 = kVectorOps;

}  // namespace lathe::cpu

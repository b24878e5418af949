// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/vector_ops_kernel.h"

namespace lathe::cpu {

const VectorOps kVectorOpsAvx2 = kVectorOps;

}  // namespace lathe::cpu

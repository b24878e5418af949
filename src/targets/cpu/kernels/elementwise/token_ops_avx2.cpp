// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/token_ops_kernel.h"

namespace lathe::cpu {

const TokenOps kTokenOpsAvx2 = kTokenOps;

}  // namespace lathe::cpu

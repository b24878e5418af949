// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/elementwise/quantize_ops_kernel.h"

namespace lathe::cpu {

const QuantizeOps kQuantizeOpsAvx512 = kQuantizeOps;

}  // namespace lathe::cpu

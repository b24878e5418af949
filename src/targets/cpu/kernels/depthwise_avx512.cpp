// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise_kernel.h"

namespace lathe::cpu {

const DepthwiseTable kDepthwiseAvx512 = kDepthwiseTable;

}  // namespace lathe::cpu

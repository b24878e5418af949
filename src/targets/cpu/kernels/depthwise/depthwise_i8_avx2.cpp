// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise/depthwise_kernel.h"

namespace lathe::cpu {

const ComputeDepthwiseRow kDepthwiseI8Avx2 = depthwise_row<int8_t>;

}  // namespace lathe::cpu

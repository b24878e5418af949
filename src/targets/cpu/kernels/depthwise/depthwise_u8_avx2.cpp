// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise/depthwise_kernel.h"

namespace lathe::cpu {

const ComputeDepthwiseRow kDepthwiseU8Avx2 = depthwise_row<uint8_t>;

}  // namespace lathe::cpu

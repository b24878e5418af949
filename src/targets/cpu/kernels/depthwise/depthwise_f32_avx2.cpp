// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise/depthwise_kernel.h"

namespace lathe::cpu {

const ComputeDepthwiseRow kDepthwiseF32Avx2 = depthwise_row<float>;

}  // namespace lathe::cpu

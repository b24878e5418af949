// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise/depthwise_kernel.h"

namespace lathe::cpu {

const ComputeDepthwiseRow kDepthwiseBf16Avx512Bf16 = depthwise_row<Bf16>;

}  // namespace lathe::cpu

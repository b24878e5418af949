// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/causal_conv_kernel.h"

namespace lathe::cpu {

const CausalConvKernels kCausalConvAvx2 = kCausalConv;

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/linear_attention_kernel.h"

namespace lathe::cpu {

const LinearAttentionKernels kLinearAttentionAvx512 = kLinearAttention;

}  // namespace lathe::cpu

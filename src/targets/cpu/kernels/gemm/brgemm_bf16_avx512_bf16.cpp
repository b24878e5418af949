// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm_kernel.h"

namespace lathe::cpu {

const BrgemmKernel kBrgemmBf16Avx512Bf16 = kKernel<GemmBf16>;

}  // namespace lathe::cpu

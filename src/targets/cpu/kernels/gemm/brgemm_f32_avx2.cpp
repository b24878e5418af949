// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm_kernel.h"

namespace lathe::cpu {

const BrgemmKernel kBrgemmF32Avx2 = kKernel<GemmF32>;

}  // namespace lathe::cpu

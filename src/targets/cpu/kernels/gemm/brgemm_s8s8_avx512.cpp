// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm_kernel.h"

namespace lathe::cpu {

const BrgemmKernel kBrgemmS8S8Avx512 = kKernel<GemmS8S8>;

}  // namespace lathe::cpu

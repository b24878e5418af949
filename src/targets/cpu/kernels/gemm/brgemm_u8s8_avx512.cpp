// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/brgemm_kernel.h"

namespace lathe::cpu {

const BrgemmKernel kBrgemmU8S8Avx512 = kKernel<GemmU8S8>;

}  // namespace lathe::cpu

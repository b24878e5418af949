// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/pool/pooling_kernel.h"

namespace lathe::cpu {

const PoolingKernels& pooling_avx2() { return kPoolingKernels; }

}  // namespace lathe::cpu

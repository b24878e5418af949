// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/half_panels_kernel.h"

namespace lathe::cpu {

const HalfPanelsKernel& half_panels_avx512();
const HalfPanelsKernel& half_panels_avx512() { return kHalfPanels; }

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/half_panels_kernel.h"

namespace lathe::cpu {

const HalfPanelsKernel& half_panels_avx2();
const HalfPanelsKernel& half_panels_avx2() { return kHalfPanels; }

}  // namespace lathe::cpu

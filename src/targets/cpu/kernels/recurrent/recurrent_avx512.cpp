// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/recurrent_kernel.h"

namespace lathe::cpu {

const RecurrentKernels& recurrent_avx512() { return kRecurrentKernels; }

}  // namespace lathe::cpu

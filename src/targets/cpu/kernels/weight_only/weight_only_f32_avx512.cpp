// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_f32_kernel.h"

namespace lathe::cpu {

constinit const WeightOnlyF32Table kWeightOnlyF32Avx512 = make_f32_table();

}  // namespace lathe::cpu

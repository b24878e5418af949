// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_kernel.h"

namespace lathe::cpu {

constinit const WeightOnlyTable kWeightOnlyAvx512 = make_table();

}  // namespace lathe::cpu

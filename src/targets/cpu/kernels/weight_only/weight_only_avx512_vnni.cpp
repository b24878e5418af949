// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_kernel.h"

namespace lathe::cpu {

constinit const WeightOnlyTable kWeightOnlyAvx512Vnni = make_table();

}  // namespace lathe::cpu

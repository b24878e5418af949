// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_kernel.h"

namespace lathe::cpu {

constinit const WeightOnlyGemvs kWeightOnlyGemvAvx512Vnni = make_gemvs();
constinit const WeightOnlyTable kWeightOnlyAvx512Vnni = make_table(kWeightOnlyGemvAvx512Vnni);

}  // namespace lathe::cpu

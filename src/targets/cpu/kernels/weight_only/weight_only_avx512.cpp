// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/weight_only/weight_only_kernel.h"

namespace lathe::cpu {
namespace {

constexpr WeightOnlyGemvs kGemvs = make_gemvs();

}  // namespace

constinit const WeightOnlyTable kWeightOnlyAvx512 = make_table(kGemvs);

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Kernels exported by the per-ISA sources of reduce_ops.
#pragma once

#include "targets/cpu/kernels/elementwise/reduce_ops.h"

namespace lathe::cpu {

extern const ReduceOps kReduceOpsAvx2;
extern const ReduceOps kReduceOpsAvx512;

}  // namespace lathe::cpu

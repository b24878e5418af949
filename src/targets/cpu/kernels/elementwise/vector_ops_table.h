// SPDX-License-Identifier: MIT
// Kernels exported by the per-ISA sources of vector_ops.
#pragma once

#include "targets/cpu/kernels/elementwise/vector_ops.h"

namespace lathe::cpu {

extern const VectorOps kVectorOpsAvx2;
extern const VectorOps kVectorOpsAvx512;

}  // namespace lathe::cpu

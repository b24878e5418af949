// SPDX-License-Identifier: MIT
// What the units of vector_ops export.
#pragma once

#include "targets/cpu/kernels/elementwise/vector_ops.h"

namespace lathe::cpu {

extern const VectorOps kVectorOpsAvx2;
extern const VectorOps kVectorOpsAvx512;

}  // namespace lathe::cpu

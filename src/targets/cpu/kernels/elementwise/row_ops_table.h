// SPDX-License-Identifier: MIT
// Kernels exported by the per-ISA sources of row_ops.
#pragma once

#include "targets/cpu/kernels/elementwise/row_ops.h"

namespace lathe::cpu {

extern const RowOps kRowOpsAvx2;
extern const RowOps kRowOpsAvx512;

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// What the units of row_ops export.
#pragma once

#include "targets/cpu/kernels/elementwise/row_ops.h"

namespace lathe::cpu {

extern const RowOps kRowOpsAvx2;
extern const RowOps kRowOpsAvx512;

}  // namespace lathe::cpu

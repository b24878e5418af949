// SPDX-License-Identifier: MIT
// Kernels exported by the per-ISA sources of quantize_ops.
#pragma once

#include "targets/cpu/kernels/elementwise/quantize_ops.h"

namespace lathe::cpu {

extern const QuantizeOps kQuantizeOpsAvx2;
extern const QuantizeOps kQuantizeOpsAvx512;

}  // namespace lathe::cpu

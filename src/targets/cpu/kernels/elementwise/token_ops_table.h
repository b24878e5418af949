// SPDX-License-Identifier: MIT
// Kernels exported by the per-ISA sources of token_ops.
#pragma once

#include "targets/cpu/kernels/elementwise/token_ops.h"

namespace lathe::cpu {

extern const TokenOps kTokenOpsAvx2;
extern const TokenOps kTokenOpsAvx512;

}  // namespace lathe::cpu

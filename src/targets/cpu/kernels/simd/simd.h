// SPDX-License-Identifier: MIT
// Vector layer of the instruction set that the file is compiled for. Include it only in units whose
// name ends in an instruction set, and in their headers.
#pragma once

#include "targets/cpu/kernels/simd/simd_math.h"  // IWYU pragma: export

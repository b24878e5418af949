// SPDX-License-Identifier: MIT
// The vector layer of the instruction set that the file is compiled for. Only for units whose names
// end in an instruction set, and headers that they include.
#pragma once

#include "targets/cpu/kernels/simd/simd_math.h"  // IWYU pragma: export

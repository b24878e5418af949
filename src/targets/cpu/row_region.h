// SPDX-License-Identifier: MIT
// Softmax, its logarithm and normalisations, alone or in a region: a row of the last axis at a
// time, dequantised before and quantised after in the L1 cache.
#pragma once

#include <memory>
#include <string>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Reason why there is no such kernel, which a region may have between quantisations.
std::string why_no_rows(const Instruction& instruction);
KernelChoice make_rows(const Instruction& instruction, Constants constants, Isa isa);
// For a region: a dequantisation or none, such an instruction, a quantisation or none.
std::string why_no_row_region(const Instruction& region);
std::unique_ptr<const Kernel> make_row_region(const Instruction& region, Isa isa);

}  // namespace lathe::cpu

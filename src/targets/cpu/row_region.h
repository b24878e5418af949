// SPDX-License-Identifier: MIT
// Softmax, its logarithm and normalisations, alone or in a region: a row of an axis at a
// time, with elementwise instructions before and after it in the L1 cache.
#pragma once

#include <memory>
#include <string>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Reason why there is no such kernel, which a region may have between elementwise instructions.
std::string why_no_rows(const Instruction& instruction);
KernelChoice make_rows(const Instruction& instruction, Constants constants, Isa isa);
// For a region of one such instruction and elementwise ones, of one shape.
std::string why_no_row_region(const Instruction& region);
std::unique_ptr<const Kernel> make_row_region(const Instruction& region, Isa isa);

}  // namespace lathe::cpu

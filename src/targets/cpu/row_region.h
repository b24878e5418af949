// SPDX-License-Identifier: MIT
// Softmax, alone or in a region, and normalisations in a region: a row of the last axis at a time,
// dequantised before and quantised after in the L1 cache.
#pragma once

#include <memory>
#include <string>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Reason why no region has the instruction between quantisations; empty if one may.
std::string why_no_rows(const Instruction& instruction);
// For a region: a dequantisation or none, such an instruction, a quantisation or none.
std::string why_no_row_region(const Instruction& region);
std::unique_ptr<const Kernel> make_row_region(const Instruction& region, Isa isa);

}  // namespace lathe::cpu

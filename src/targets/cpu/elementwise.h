// SPDX-License-Identifier: MIT
// Elementwise instructions, alone or as a region: all of them run on one chunk of elements after
// the other, which stays in the L1 cache. A region may quantise and dequantise with one scale; one
// from int8 to int8, of constants otherwise, is a table.
#pragma once

#include <memory>
#include <string>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Reason why no kernel runs the instruction, alone or in a region; empty if one does.
std::string why_no_elementwise(const Instruction& instruction);
// As above, for results that stay in registers: their type must be that of the registers.
std::string why_not_fused(const Instruction& instruction);
// For the body of a region: instructions with one result, the last of which is the region's.
std::string why_no_elementwise_region(const Instruction& region);
std::unique_ptr<const Kernel> make_elementwise_region(const Instruction& region,
                                                      Constants constants, Isa isa);

}  // namespace lathe::cpu

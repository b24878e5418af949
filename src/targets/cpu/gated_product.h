// SPDX-License-Identifier: MIT
// A region of a matmul_n_bits and swiglu of the halves of its columns.
#pragma once

#include <string>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Reason why no kernel computes `next` on the halves of the columns of the GEMM.
std::string why_no_gate(const Instruction& product, const Instruction& next);
// The matmul_n_bits in the body of such a region; null for other instructions.
const Instruction* gated_product(const Instruction& region);
KernelChoice make_gated_product(const Instruction& region, Constants constants, Isa isa);

}  // namespace lathe::cpu

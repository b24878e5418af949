// SPDX-License-Identifier: MIT
// Machine code of a kernel: the loops over rows and columns.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel.h"

namespace lathe::codegen::x86 {

struct Code {
  std::vector<std::byte> bytes;  // position-independent; void(KernelCall*) at their start
  int unroll = 1;
};

// Without bytes if more values are spilled than the frame holds.
Code emit(const KernelDescription& kernel, Isa isa, std::string* log);

std::vector<ElementType> operand_types(Isa isa);
// Empty, or the reason why there is no code for it.
std::string why_not(const KernelDescription& kernel, Isa isa);

}  // namespace lathe::codegen::x86

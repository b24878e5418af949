// SPDX-License-Identifier: MIT
// Structural hash and equality of instructions: the same op of the same values.
#pragma once

#include <cstddef>

#include "ir/program.h"

namespace lathe {

// Equal instructions have equal hashes. Valid while the program is not changed.
size_t structural_hash(const Instruction& instruction);

// True if both have the same op, operands, attributes (numbers by their bits), target, literal (by
// its elements) and result types: for a pure op, the same results. Instructions with bodies, or
// that define symbols, equal no other.
bool structurally_equal(const Instruction& a, const Instruction& b);

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Packed weights in the text of lowered programs: literals that pack others.
#pragma once

#include "ir/program.h"
#include "plan/given_packings.h"
#include "targets/compile.h"

namespace lathe {

// Adds a packed literal for all weights that the target's kernels pack. Evaluates deferred
// instructions. Does nothing before lowering, for a target that packs nothing, and for a program
// that has such literals.
void add_packings(Program& program, const CompileOptions& options);

// Removes packed literals; kernels get what they had.
void take_packings(Program& program, GivenPackings& given);

// Replaces deferred instructions by their values, but for weights of 16 bits and transposed
// ones of f32 under products in f32.
void evaluate_deferred(Program& program);

}  // namespace lathe

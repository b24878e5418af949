// SPDX-License-Identifier: MIT
// How far rounding alone may move results: nudged copies of programs and operands, run on `ref`.
#pragma once

#include <cstdint>
#include <memory>

#include "ir/program.h"

namespace lathe {

// A sum may be computed in an order whose result is further off than those of random nudges.
inline constexpr double kOrders = 4;

// True if a small change of an f32 operand may move a result by a step: comparisons, roundings to
// integers, indices.
bool jumps(const Instruction& instruction);

// A copy in which every element of each f32 operand of arithmetic is off by a random part of it, at
// most 2^-20: 16 roundings. Sums that cancel move as far as they would if computed in another
// order. Literals stay as they are, as do values that integers depend on, and, unless
// `comparisons`, values that are compared.
std::unique_ptr<Program> make_nudged(const Program& program, uint64_t seed,
                                     bool comparisons = false);

// Nudges one operand: returns a copy if it is of f32.
Tensor nudged(const Tensor& tensor, uint64_t seed);

}  // namespace lathe

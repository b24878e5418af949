// SPDX-License-Identifier: MIT
// How far rounding alone may move the results of a program: nudged copies of it, run on `ref`.
#pragma once

#include <cstdint>
#include <memory>

#include "ir/program.h"

namespace lathe::test {

// A copy in which every element of each f32 operand of arithmetic is off by a random part of it, at
// most 2^-20: 16 roundings. Sums that cancel move as far as they would if computed in another
// order. Values that comparisons, casts and roundings to integers depend on stay as they are.
std::unique_ptr<Program> make_nudged(const Program& program, uint64_t seed);

}  // namespace lathe::test

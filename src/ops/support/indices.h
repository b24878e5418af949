// SPDX-License-Identifier: MIT
// Index operands: negative values count from the end, others out of range are errors.
#pragma once

#include <vector>

#include "ops/evaluation.h"

namespace lathe {

// An index counted from the front.
int64_t checked_index(const Evaluation& c, int64_t index, int64_t extent);
// Checks that x reaches as far as `indices` along every other axis.
void check_reach(const Evaluation& c, const TensorView& x, const TensorView& indices, int axis);
// The one value of operand i.
int64_t single_value(const Evaluation& c, int i);
// Values [first, first + to.size()) of operand i, row-major; and the same as such indices.
void load_values(const Evaluation& c, int i, int64_t first, std::span<int64_t> to);
void load_indices(const Evaluation& c, int i, int64_t extent, int64_t first, std::span<int64_t> to);
// All of them.
std::vector<int64_t> indices_of(const Evaluation& c, int i, int64_t extent);

}  // namespace lathe

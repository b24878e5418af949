// SPDX-License-Identifier: MIT
// Index operands: negative values count from the end; values out of range are errors.
#pragma once

#include <vector>

#include "ops/evaluation.h"

namespace lathe {

// A normalised index.
int64_t checked_index(const Evaluation& c, int64_t index, int64_t extent);
// Checks that no axis of `indices` other than `axis` exceeds that of x.
void check_reach(const Evaluation& c, const TensorView& x, const TensorView& indices, int axis);
// The single element of operand i.
int64_t single_value(const OpOrigin& origin, const OperandViews& c, int i);
inline int64_t single_value(const Evaluation& c, int i) { return single_value(c, c, i); }
// The single element of operand i, which must be at least `least`.
int64_t single_value(const Evaluation& c, int i, int64_t least);
// load_values: elements [first, first + to.size()) of operand i, row-major. load_indices: the
// elements as normalised indices.
void load_values(const Evaluation& c, int i, int64_t first, std::span<int64_t> to);
void load_values(const TensorView& x, int64_t first, std::span<int64_t> to);
void load_indices(const Evaluation& c, int i, int64_t extent, int64_t first, std::span<int64_t> to);
// All elements of operand i as normalised indices.
std::vector<int64_t> indices_of(const Evaluation& c, int i, int64_t extent);

}  // namespace lathe

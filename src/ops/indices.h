// SPDX-License-Identifier: MIT
// Index operands: negative values count from the end, others out of range are errors.
#pragma once

#include <vector>

#include "ops/evaluation.h"

namespace lathe {

// An index counted from the front.
int64_t checked_index(const Evaluation& c, int64_t index, int64_t extent);
// All values of operand i as such indices, row-major.
std::vector<int64_t> indices_of(const Evaluation& c, int i, int64_t extent);

}  // namespace lathe

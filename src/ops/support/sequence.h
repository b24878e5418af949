// SPDX-License-Identifier: MIT
// What the ops on sequences and optionals share.
#pragma once

#include <vector>

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

// The sequence type that holds items of both types, or an error.
Type joined_sequence(const Infer& c, const Type& sequence, const Type& item);
// The optional operand `i` as a place in a sequence; places may be counted from the end.
int64_t sequence_place(const Evaluation& c, int i, int64_t lowest, int64_t highest);
Box make_sequence(std::vector<Box> items);
// Gives a tensor, whether its result has memory or a box; sequences pass as they are.
void set_result(Evaluation& c, const Box& value);

}  // namespace lathe

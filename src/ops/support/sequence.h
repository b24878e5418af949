// SPDX-License-Identifier: MIT
// Shared by ops on sequences and optionals.
#pragma once

#include <vector>

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

// The sequence type of items of both types, or an error.
Type joined_sequence(const Infer& c, const Type& sequence, const Type& item);
// Operand `i`, an optional position in a sequence; negative positions count from the end.
int64_t sequence_place(const Evaluation& c, int i, int64_t lowest, int64_t highest);
Box make_sequence(std::vector<Box> items);
// Sets a tensor result in memory or in a box; sequences are passed through.
void set_result(Evaluation& c, const Box& value);

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Axes that are given as an operand.
#pragma once

#include <optional>
#include <vector>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/small_vector.h"

namespace lathe {

// The axes named by operand i, counted from the front, each once; nullopt where inference does not
// know the values.
std::optional<std::vector<int>> known_axes(const Infer& c, int i, int rank);
// The extent of a rank-1 operand, if it is a constant: how many axes, shape values, … there are.
std::optional<int64_t> known_length(const Infer& c, int i);
SmallVector<int> axes_of(const Evaluation& c, int i, int rank);

// As many dims as the length of operand i says, each found when the instruction runs; nothing where
// that length is no constant.
std::optional<std::vector<Dim>> found_dims(Infer& c, std::optional<int64_t> rank,
                                           std::string_view hint);
// The product of the extents in [begin, end).
int64_t count_between(std::span<const int64_t> dims, int begin, int end);

// `view` function of ops whose result is the operand under other extents.
bool view_reshaped(ViewRequest& v);

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Axes that are an operand.
#pragma once

#include <optional>
#include <vector>

#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/small_vector.h"

namespace lathe {

// The normalised distinct axes in operand i; nullopt if inference does not have the values.
std::optional<std::vector<int>> known_axes(const Infer& c, int i, int rank);
// The constant size of a rank-1 operand: the number of axes, shape values, …
std::optional<int64_t> known_length(const Infer& c, int i);
SmallVector<int> axes_of(const Evaluation& c, int i, int rank);

// As Infer::axes, of the attribute's value: all axes if it is empty.
std::vector<int> named_axes(const Integers& named, int rank);

// One data-dependent dim per element of operand i; nullopt if its size is not constant.
std::optional<std::vector<Dim>> found_dims(Infer& c, std::optional<int64_t> rank,
                                           std::string_view hint);
// Product of the sizes in [begin, end).
int64_t count_between(std::span<const int64_t> dims, int begin, int end);

// `view` function of ops whose result is the operand with another shape.
bool view_reshaped(ViewRequest& v);

}  // namespace lathe

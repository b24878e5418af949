// SPDX-License-Identifier: MIT
// Symbolic values through ops that only move elements.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ir/infer.h"

namespace lathe {

// The symbolic values of each result of an op whose results hold elements of the operands `data`
// and nothing else. The op's own evaluation is run on the elements' numbers, so the values of
// every other operand must be constants. Empty optionals where they cannot be said.
std::vector<std::optional<std::vector<Dim>>> moved_elements(const Infer& c,
                                                            const std::vector<int>& data);
// For ops with one result, after it is stated.
void flow_elements(Infer& c, const std::vector<int>& data);

}  // namespace lathe

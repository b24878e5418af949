// SPDX-License-Identifier: MIT
// Propagates symbolic values through ops that only move elements.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "ir/infer.h"

namespace lathe {

// Symbolic values of each result of an op whose results are elements of the operands `data`.
// Evaluates the op on element indices, so all other operands must be constants. nullopt where
// unknown.
std::vector<std::optional<std::vector<Dim>>> moved_elements(const Infer& c,
                                                            const std::vector<int>& data);
// Sets the elements of an op's only result; call after result().
void propagate_elements(Infer& c, const std::vector<int>& data);

}  // namespace lathe

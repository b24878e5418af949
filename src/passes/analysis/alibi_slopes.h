// SPDX-License-Identifier: MIT
// Attention with linear biases (ALiBi, arXiv:2108.12409): what is added to a score grows with the
// key's position, at a slope of its own for each head. What is added to all scores of a row alike
// changes no weight, so that only the slopes count, wherever an exporter lets positions begin.
#pragma once

#include <optional>
#include <vector>

#include "passes/analysis/affine_analysis.h"

namespace lathe {

// An element is heads[h] · Σ steps[axis] · index[axis], plus something that depends on h alone;
// h is the index along `axis`.
struct AlibiSlopes {
  std::vector<double> heads;  // one: the same for all
  int axis = -1;              // -1: one for all
  std::vector<int64_t> steps;
};

// How a value grows by position; nullopt where that is not known, or not at all.
std::optional<AlibiSlopes> alibi_slopes(const Value* value, const AffineAnalysis& flow);

// Of scores [heads, rows, keys], with a batch of one before it or without: a slope per head (one:
// for all) along the keys. nullopt where anything else than head, row and key decides.
std::optional<std::vector<double>> alibi_slopes_of_scores(const Value* value,
                                                          const AffineAnalysis& flow);

}  // namespace lathe

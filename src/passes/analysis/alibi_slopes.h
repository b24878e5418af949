// SPDX-License-Identifier: MIT
// ALiBi (attention with linear biases, arXiv:2108.12409): the bias of a score is the key's position
// times a slope per head. Softmax ignores a constant added to all scores of a query. The slopes
// matter, but not the position at which an exporter starts to count.
#pragma once

#include <optional>
#include <vector>

#include "passes/analysis/affine_analysis.h"

namespace lathe {

// An element is heads[h] · Σ steps[axis] · index[axis] + c(h); h is the index along `axis`.
struct AlibiSlopes {
  std::vector<double> heads;  // slopes; one element: equal for all heads
  int axis = -1;              // axis of heads; -1: one slope
  std::vector<int64_t> steps;
};

// Slopes of a bias; nullopt for any other value.
std::optional<AlibiSlopes> alibi_slopes(const Value* value, const AffineAnalysis& flow);

// Slopes of a bias [heads, queries, keys], or with a leading batch of one: one per head (or one for
// all) along the keys. nullopt if the bias depends on anything else than head, query and key.
std::optional<std::vector<double>> alibi_slopes_of_scores(const Value* value,
                                                          const AffineAnalysis& flow);

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "llm/model/pool_tokens.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lathe::llm {

void pool_tokens(Pooling pooling, const float* states, int64_t tokens, int64_t skipped,
                 int64_t size, float* pooled) {
  if (pooling == Pooling::cls) skipped = 0;
  if (skipped >= tokens) {
    std::fill_n(pooled, size, 0.0F);
    return;
  }
  if (pooling == Pooling::cls || pooling == Pooling::last_token) {
    std::copy_n(states + (pooling == Pooling::cls ? 0 : tokens - 1) * size, size, pooled);
    return;
  }
  if (pooling == Pooling::max) {
    std::copy_n(states + skipped * size, size, pooled);
    for (int64_t t = skipped + 1; t < tokens; ++t) {
      for (int64_t i = 0; i < size; ++i) pooled[i] = std::max(pooled[i], states[t * size + i]);
    }
    return;
  }
  std::vector<double> sums(static_cast<size_t>(size), 0.0);
  double divisor = 0;
  for (int64_t t = skipped; t < tokens; ++t) {
    const double weight = pooling == Pooling::weighted_mean ? static_cast<double>(t + 1) : 1;
    divisor += weight;
    for (int64_t i = 0; i < size; ++i) {
      sums[static_cast<size_t>(i)] += weight * double{states[t * size + i]};
    }
  }
  if (pooling == Pooling::mean_sqrt_length) divisor = std::sqrt(divisor);
  for (int64_t i = 0; i < size; ++i) {
    pooled[i] = static_cast<float>(sums[static_cast<size_t>(i)] / divisor);
  }
}

void normalise(float* values, int64_t size) {
  constexpr double kLeast = 1e-12;
  double squares = 0;
  for (int64_t i = 0; i < size; ++i) squares += double{values[i]} * double{values[i]};
  const double length = std::max(std::sqrt(squares), kLeast);
  for (int64_t i = 0; i < size; ++i) values[i] = static_cast<float>(double{values[i]} / length);
}

}  // namespace lathe::llm

// SPDX-License-Identifier: MIT
// Rows of attention caches [batch, heads, rows, size], each batch row with its own length.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace lathe {

// Writes the new rows behind each batch row's past. Where the past (null: none) is not the
// present's own memory, the past is copied and what lies behind the new rows is zero.
void update_cache(const TensorView* past, const TensorView& added, const TensorView& present,
                  std::span<const int64_t> lengths);

// A cache of fixed capacity C that keeps the last positions at its front. G = C - window + 1 is how
// many rows go at once, so that the whole window is always there.
struct SlidingCache {
  int64_t capacity;
  int64_t window;

  // Rows held after so many tokens: all while they fit, then tokens - G · ceil((tokens - C) / G).
  int64_t kept(int64_t tokens) const;
  // What each batch row attends to: the rows that the past keeps, then the added ones. Makes the
  // present of their last; rows behind it are zero. Batch row b has seen past[b] tokens before and
  // last[b] + 1 after.
  Tensor slide(const TensorView& before, const TensorView& added, const TensorView& present,
               std::span<const int64_t> past, std::span<const int64_t> last) const;
};

}  // namespace lathe

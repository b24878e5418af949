// SPDX-License-Identifier: MIT
// KV caches [batch, heads, tokens, size] with one length per sequence.
#pragma once

#include <cstdint>
#include <span>

#include "ops/support/scratch_tensor.h"

namespace lathe {

// Writes new tokens behind each sequence's past. If the past (null: none) does not share the
// present's memory, copies it and zeroes the entries behind the new tokens.
void update_cache(const TensorView* past, const TensorView& added, const TensorView& present,
                  std::span<const int64_t> lengths);

// A sliding-window cache of fixed capacity C with the last positions at its front. Entries are
// dropped in groups of G = C - window + 1, so that the whole window is always present.
struct SlidingCache {
  int64_t capacity;
  int64_t window;

  // Entries after `tokens` tokens: all that fit, else tokens - G · ceil((tokens - C) / G).
  int64_t kept(int64_t tokens) const;
  // Returns the keys or values to attend to: kept entries of the past, then the new ones. Writes
  // the last of these to the present and zeroes the rest. Sequence b has past[b] tokens before this
  // run and last[b] + 1 after it.
  ScratchTensor slide(const TensorView& before, const TensorView& added, const TensorView& present,
                      std::span<const int64_t> past, std::span<const int64_t> last) const;
};

}  // namespace lathe

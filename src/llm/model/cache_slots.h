// SPDX-License-Identifier: MIT
// Slots of a KV cache across its pages.
#pragma once

#include "llm/model/sequence.h"

namespace lathe::llm {

// Copies positions [begin, begin + count) of the cache to `to`, [1, heads, count, size].
void read_slots(const CacheLayout& layout, const CacheLayout::Place& place, const HeldPages& cache,
                int64_t begin, const TensorView& slots);

// Allocates the pages of a group for positions [first, end) and fills them; slots before `first`
// are zero.
class CacheWriter {
 public:
  CacheWriter(const CacheLayout& layout, size_t group, int64_t first, int64_t end);
  // Writes slots from position `first` or `begin` on.
  void write(const CacheLayout::Place& place, const TensorView& slots);
  void write(const CacheLayout::Place& place, int64_t begin, const TensorView& slots);
  HeldPages take() { return std::move(cache_); }

 private:
  const CacheLayout& layout_;
  HeldPages cache_;
};

}  // namespace lathe::llm

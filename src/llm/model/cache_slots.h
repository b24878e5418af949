// SPDX-License-Identifier: MIT
// Rows of a cache across its pages.
#pragma once

#include "llm/model/sequence.h"

namespace lathe::llm {

// Rows [begin, begin + count) of the cache go to `rows`, [1, heads, count, size].
void read_rows(const CacheLayout& layout, const CacheLayout::Place& place, const HeldPages& cache,
               int64_t begin, const TensorView& rows);

// Pages of a group from position `first` on, taken from the pool as rows come; what lies before
// `first` in the first page is zero.
class CacheWriter {
 public:
  CacheWriter(const CacheLayout& layout, size_t group, int64_t first, int64_t end);
  // From `first` on, or from `begin`.
  void write(const CacheLayout::Place& place, const TensorView& rows);
  void write(const CacheLayout::Place& place, int64_t begin, const TensorView& rows);
  HeldPages take() { return std::move(cache_); }

 private:
  const CacheLayout& layout_;
  HeldPages cache_;
};

}  // namespace lathe::llm

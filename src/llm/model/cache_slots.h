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

// Stores encoder results, one for each cross state of the layout in order, in pages of their own.
// Tensors without data: not set. InvalidArgument if results of one group have other lengths.
void store_cross(const CacheLayout& layout, std::span<const Tensor> tensors,
                 SequenceStates& states);
// The encoder result; no data if it is not set.
Tensor load_cross(const CacheLayout& layout, const SequenceStates& states,
                  const SequenceState& state);

}  // namespace lathe::llm

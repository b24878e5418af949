// SPDX-License-Identifier: MIT
// A step packs the new tokens of several sequences on one token axis, without padding. Sequence
// operators combine tokens of one sequence; this interface maps tokens to sequences and to their
// KV caches and states.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/evaluation.h"

namespace lathe {

// Tokens [begin, begin + count) of the token axis; the sequence has `past` earlier tokens.
struct StepItem {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t past = 0;
};

// Contents of a KV cache, dense [1, heads, positions, size], from position `first` on.
struct CacheRows {
  TensorView rows;
  int64_t first = 0;
};

// A paged KV cache with `rows` positions per page: position p of item i is entry p mod rows of page
// pages[i · stride + p / rows], [heads, rows, size]. Null: evicted by the window.
struct CachePages {
  const std::byte* const* pages = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
};

// How a sequence operator uses its KV caches: it appends its tokens, reads a cache that another
// instruction of the step appends to, or reads a cross-attention cache that is written once.
enum class CacheRole : uint8_t { appended, shared, cross };
// InvalidArgument for an unknown name.
CacheRole cache_role(std::string_view name);
std::string_view to_string(CacheRole role);

class SequenceStep {
 public:
  virtual ~SequenceStep() = default;
  virtual std::span<const StepItem> items() const = 0;

  // Appends the item's new keys or values [1, heads, count, size] to its KV cache.
  virtual void append(std::string_view state, size_t item, const TensorView& rows) = 0;
  // All held positions, past and new, copied to `memory`; a cross cache entirely.
  virtual CacheRows rows(std::string_view state, size_t item, std::vector<std::byte>& memory) = 0;

  // Alternative to both: the items' pages with room for the new positions, which the caller writes.
  virtual CachePages pages(std::string_view state) = 0;

  // States of fixed shape [1, …]: the value after the item's last step (no data: zeros), and memory
  // for the next value.
  virtual TensorView current(std::string_view state, size_t item) = 0;
  virtual TensorView next(std::string_view state, size_t item) = 0;
};

// The current step; InvalidArgument unless its items cover exactly `rows` tokens.
SequenceStep& step_of(const OpOrigin& origin, const OperandViews& c, int64_t rows);
inline SequenceStep& step_of(const Evaluation& c, int64_t rows) { return step_of(c, c, rows); }

}  // namespace lathe

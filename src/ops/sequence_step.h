// SPDX-License-Identifier: MIT
// A step packs new rows of several sequences one behind the other on one token axis, without
// padding. Sequence operators are those that look beyond a row: they see, through this interface,
// which rows belong together and what came before them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/evaluation.h"

namespace lathe {

// Rows [begin, begin + count) of the token axis; `past` rows of the sequence came before.
struct StepItem {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t past = 0;
};

// Rows of a cache, dense [1, heads, rows, size]; row 0 is position `first` of the sequence.
struct CacheRows {
  TensorView rows;
  int64_t first = 0;
};

// A cache in pages of `rows` positions each: position p of item i is row p mod rows of page
// pages[i · stride + p / rows], where the cache [heads, rows, size] begins `offset` bytes in. Null:
// a window has let go of it.
struct CachePages {
  const std::byte* const* pages = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t offset = 0;
};

// What a sequence operator does with the caches it names: it appends its rows, or reads those that
// another instruction of the step has appended, or all of a state that was written once.
enum class CacheRole : uint8_t { appended, shared, cross };
// By its name; InvalidArgument for another.
CacheRole cache_role(std::string_view name);
std::string_view to_string(CacheRole role);

class SequenceStep {
 public:
  virtual ~SequenceStep() = default;
  virtual std::span<const StepItem> items() const = 0;

  // Caches: the item's new rows [1, heads, count, size] go behind its past.
  virtual void append(std::string_view state, size_t item, const TensorView& rows) = 0;
  // Past and new rows, as many as are held, in `memory`, which grows as seldom as the cache does;
  // all of a state that was written once.
  virtual CacheRows rows(std::string_view state, size_t item, std::vector<std::byte>& memory) = 0;

  // Instead of both: the items' pages, with room for their new rows, which the caller writes.
  virtual CachePages pages(std::string_view state) = 0;

  // States of fixed extents [1, …]: what the item's last step left (no data: zeros), and memory for
  // what this one leaves.
  virtual TensorView current(std::string_view state, size_t item) = 0;
  virtual TensorView next(std::string_view state, size_t item) = 0;
};

// The step under way, whose items cover `rows` rows; InvalidArgument if there is none.
SequenceStep& step_of(const Evaluation& c, int64_t rows);

}  // namespace lathe

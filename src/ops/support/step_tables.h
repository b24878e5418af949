// SPDX-License-Identifier: MIT
// A step packs the new tokens of several sequences on one token axis, without padding. Sequence ops
// combine tokens of one sequence; step tables, i32, map tokens to sequences, and sequences to the
// pages of their KV caches and the slots of their states.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/infer.h"
#include "ops/op_origin.h"
#include "tensor/tensor.h"

namespace lathe {

// Tokens [begin, begin + count) of the token axis; the sequence has `past` earlier tokens.
struct StepItem {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t past = 0;
};

// The sequences of a step. `bounds` i32[sequences + 1]: the first token of each, and the number of
// tokens. `past` i32[sequences]: earlier tokens; without data: 0. InvalidArgument unless the bounds
// rise from 0 to `tokens`.
void read_items(const OpOrigin& origin, const TensorView& bounds, const TensorView& past,
                int64_t tokens, std::vector<StepItem>& items);

// A paged KV cache [pages, heads, page length, size] and the page table i32[sequences, n] of its
// sequences: position p of sequence i is row p mod page length of page table[i, p / page length].
// Pages outside of the window may be -1.
class PagedCache {
 public:
  PagedCache(const TensorView& cache, const TensorView& table) : cache_(cache), table_(table) {}

  // InvalidArgument unless positions [begin, end) of a sequence have pages.
  void check(const OpOrigin& origin, size_t sequence, int64_t begin, int64_t end) const;

  int64_t length() const { return cache_.dims[2]; }  // of a page, in positions
  int64_t columns() const { return table_.dims[1]; }
  // Column `at` of the sequence's row of the table.
  int32_t page(size_t sequence, int64_t at) const {
    return table_.as<const int32_t>()[static_cast<int64_t>(sequence) * table_.strides[0] +
                                      at * table_.strides[1]];
  }
  std::byte* address(int32_t page) const {
    return cache_.as<std::byte>() + page * cache_.strides[0] * (info(cache_.type).bits / 8);
  }
  const TensorView& view() const { return cache_; }

  // Copies [1, heads, count, size] to positions [begin, begin + count), or from them.
  void write(size_t sequence, int64_t begin, const TensorView& rows) const;
  void read(size_t sequence, int64_t begin, const TensorView& rows) const;

 private:
  template <class Use>
  void for_each_part(size_t sequence, int64_t begin, const TensorView& rows, Use use) const;

  TensorView cache_;
  TensorView table_;
};

// States of fixed shape [slots, …] and i32[sequences, 2]: the slots that a sequence reads (-1:
// zeros) and writes.
class SlottedState {
 public:
  SlottedState(const TensorView& states, const TensorView& slots)
      : states_(states), slots_(slots) {}
  // InvalidArgument unless the sequence's slots exist and differ.
  void check(const OpOrigin& origin, size_t sequence) const;
  // No data: zeros.
  TensorView current(size_t sequence) const;
  TensorView next(size_t sequence) const;

 private:
  int32_t slot(size_t sequence, int64_t which) const {
    return slots_.as<const int32_t>()[static_cast<int64_t>(sequence) * slots_.strides[0] +
                                      which * slots_.strides[1]];
  }
  TensorView at(int32_t slot) const;

  TensorView states_;
  TensorView slots_;
};

// Checks the types of step tables. `past` may be -1: no operand. `columns`: of the table; 0: any.
void check_step_tables(Infer& c, int bounds, int past, int table, int64_t columns = 0);

// Copies a version to the next one unless both are the same memory, as in a plan.
void continue_version(const TensorView& version, const TensorView& next);

}  // namespace lathe

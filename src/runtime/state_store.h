// SPDX-License-Identifier: MIT
// The states of one session: their memory, their committed content, and the step in progress.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/program.h"
#include "runtime/memory.h"
#include "tensor/tensor.h"

namespace lathe {

struct Counters;

// One state. Appends write beyond the committed length; a replaced state has two buffers; a window
// slides through a buffer of twice its rows, so that what is committed is never overwritten before
// the next commit and every version is one strided view.
class StateStore {
 public:
  // `reserve_rows`: rows of address space kept for an append state without a known bound.
  StateStore(const State& state, MemoryBudget& budget, Counters& counters, int64_t reserve_rows);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  const State& state() const { return state_; }
  // Rows committed along the growing axis: the longest of the rows of axis 0.
  int64_t length() const;
  std::span<const int64_t> lengths() const { return lengths_; }  // per row of axis 0, or one

  // Extents of what a replaced state holds; empty while it holds nothing.
  Dims held() const;

  // Version 0: `dims` are its extents this run. Allocates at first use; InvalidArgument if another
  // extent than the growing one changed while the state holds something.
  TensorView read(std::span<const int64_t> dims);
  // The next version: the view with room for x behind it, which write_rows fills.
  TensorView append(const TensorView& version, const TensorView& x);
  void write_rows(const TensorView& version, const TensorView& x);
  // The other buffer with these extents, to be written by the caller.
  TensorView replace(std::span<const int64_t> dims);

  // Makes the step's last version the committed one. `rows` (per row of axis 0) says how many of
  // the appended rows count; empty: all.
  void commit(std::span<const int64_t> rows);
  void rollback();  // forgets the step
  void reset();     // holds nothing
  // Keeps the first `length` rows; append states only.
  void truncate(int64_t length);
  // Takes over the other's content (same state).
  void copy_from(const StateStore& other);

 private:
  void allocate(std::span<const int64_t> dims, int64_t rows);
  void free_memory();
  void slide(int64_t appended);
  Dims strides_for(std::span<const int64_t> dims) const;
  int64_t row_bytes() const;
  TensorView rows_view(std::span<const int64_t> dims, int64_t start) const;
  void free_retired();

  const State& state_;
  MemoryBudget& budget_;
  Counters& counters_;
  int64_t reserve_rows_;

  // append, window: one reserved block of `capacity_` rows per outer index.
  Dims dims_;  // extents, the growing one as committed
  int64_t capacity_ = 0;
  void* pages_ = nullptr;
  int64_t page_bytes_ = 0;
  // Blocks that were outgrown in this step; earlier versions may still be read there.
  std::vector<std::pair<void*, size_t>> retired_;
  int64_t charged_ = 0;
  int64_t start_ = 0;                // window: first committed row in the buffer
  std::vector<int64_t> lengths_{0};  // committed
  int64_t appended_ = 0;             // rows of the step in progress
  int64_t step_start_ = 0;           // window: where this step's view begins

  // others: two buffers, `current_` committed.
  std::array<Tensor, 2> buffers_;
  int current_ = 0;
  bool replaced_ = false;
};

}  // namespace lathe

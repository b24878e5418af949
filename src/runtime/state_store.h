// SPDX-License-Identifier: MIT
// The states of a session: memory, committed content, and the step in progress.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/program.h"
#include "plan/device.h"
#include "plan/kernel.h"
#include "runtime/memory.h"
#include "tensor/tensor.h"

namespace lathe {

struct Counters;

// Where states lie.
struct StateMemory {
  const Device& device;
  MemoryBudget& budget;
  Stream* stream = nullptr;  // null: the host
  const Kernel& copy;

  Tensor zeros(ElementType type, std::span<const int64_t> dims) const;
  void copy_elements(const TensorView& from, const TensorView& to) const;
};

// One state. Appends write beyond the committed length. A replaced state has two buffers. A window
// slides through a buffer of twice its rows, so that committed rows are not overwritten before the
// next commit and every version is one strided view.
class StateStore {
 public:
  // `reserve_rows`: rows of address space for an append state without a bound.
  StateStore(const State& state, StateMemory memory, Counters& counters, int64_t reserve_rows);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  const State& state() const { return state_; }
  // Committed rows along the growing axis: the longest over axis 0.
  int64_t length() const;
  std::span<const int64_t> lengths() const { return lengths_; }  // per index of axis 0, or one

  // Shape of a replaced state's content; empty if it has none.
  Dims held() const;

  // Returns version 0 with shape `dims`. Allocates on first use; InvalidArgument if an axis other
  // than the growing one has changed and the state is not empty.
  TensorView read(std::span<const int64_t> dims);
  // Returns the next version: the view extended by the rows of x, for the caller to write.
  TensorView append(const TensorView& version, const TensorView& x);
  // The committed lengths along axis 0, i64, if they differ; else null. Valid until the commit.
  const TensorView* ragged_lengths();
  // Returns the other buffer with shape `dims`, for the caller to write.
  TensorView replace(std::span<const int64_t> dims);

  // Commits the step's last version. `rows`: valid appended rows per index of axis 0; empty: all.
  void commit(std::span<const int64_t> rows);
  void rollback();  // discards the step
  void reset();     // discards the content
  // Keeps the first `length` rows; append states only.
  void truncate(int64_t length);
  // Copies the content of the same state of another session.
  void copy_from(const StateStore& other);

 private:
  void allocate(std::span<const int64_t> dims, int64_t rows);
  void free_memory();
  void slide(int64_t appended);
  Dims strides_for(std::span<const int64_t> dims) const;
  int64_t row_bytes() const;
  TensorView rows_view(std::span<const int64_t> dims, int64_t start) const;
  void free_retired();
  // Makes the first `rows` of each block usable.
  void commit_rows(int64_t rows);

  const State& state_;
  StateMemory memory_;
  Counters& counters_;
  int64_t reserve_rows_;

  // append, window: one reserved block of `capacity_` rows per outer index.
  Dims dims_;  // shape; the growing axis as committed
  int64_t capacity_ = 0;
  std::unique_ptr<AddressRange> range_;
  // Blocks replaced by larger ones in this step; earlier versions still use them.
  std::vector<std::unique_ptr<AddressRange>> retired_;
  int64_t charged_ = 0;
  int64_t start_ = 0;                // window: first committed row in the buffer
  std::vector<int64_t> lengths_{0};  // committed
  TensorView lengths_view_;
  int64_t appended_ = 0;    // rows of the step in progress
  int64_t step_start_ = 0;  // window: first row of this step's view

  // Other kinds: two buffers, `current_` is committed.
  std::array<Tensor, 2> buffers_;
  int current_ = 0;
  bool replaced_ = false;
};

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Paged decode of all KV heads of a batch row, so that pages are read in the order of memory.
#pragma once

#include <array>
#include <span>

#include "targets/cpu/kernels/attention/attention_tiles.h"

namespace lathe::cpu {

class PagedBlocks {
 public:
  // `rows` of each KV head; `queries` as load_queries writes them.
  PagedBlocks(const AttentionProblem& problem, const AttentionKernels& kernels,
              const AttentionArguments& arguments, int64_t batch, int64_t rows,
              const float* queries = nullptr);

  bool may_run() const { return head(0).may_use_paged() && head(0).pages_consecutive(); }
  int64_t query_floats() const { return call_.heads * call_.key_bytes; }
  void load_queries(float* to) const;
  // Blocks of one call, at most: their weights must stay in L2.
  int64_t max_blocks() const;
  // Number of blocks from `block` on, below `end`, that one call supports; 0 if none.
  int64_t block_count(int64_t block, int64_t end) const;
  // Finds the pages and scratch of `blocks` blocks; false if a page is missing.
  bool load(int64_t block, int64_t blocks);
  // Results of run(), [block][head]: the softmax state is in scratch; outputs are null unless the
  // caller sets them.
  std::span<AttentionState> results() { return {results_, count_}; }
  // Merges all into a state of each head if not null; results then need no outputs.
  void run(const AttentionState* merged);
  // Storage for these states.
  std::span<AttentionState> states() { return {states_, static_cast<size_t>(p_.key_heads)}; }

 private:
  AttentionTiles head(int64_t index) const { return {p_, kernels_, x_, batch_, index, 0, rows_}; }
  void place(ScratchLayout layout, int64_t blocks);

  const AttentionProblem& p_;
  const AttentionKernels& kernels_;
  const AttentionArguments& x_;
  const int64_t batch_;
  const int64_t rows_;
  PagedDecode call_;
  size_t count_ = 0;
  int64_t bytes_ = 0;
  std::array<int32_t, kMaxQueryCacheLines> places_{};
  float* sums_ = nullptr;
  const std::byte** k_ = nullptr;
  const std::byte** v_ = nullptr;
  AttentionState* results_ = nullptr;
  AttentionState* states_ = nullptr;
};

}  // namespace lathe::cpu

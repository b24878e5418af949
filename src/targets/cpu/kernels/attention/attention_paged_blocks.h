// SPDX-License-Identifier: MIT
// Blocks of keys in pages against a few query rows of every key head of a batch row, so that pages
// are read in the order of memory.
#pragma once

#include <array>
#include <span>

#include "targets/cpu/kernels/attention/attention_tiles.h"

namespace lathe::cpu {

class PagedBlocks {
 public:
  // `rows` of each key head; `queries` as load_queries leaves them.
  PagedBlocks(const AttentionProblem& problem, const AttentionKernels& kernels,
              const AttentionArguments& arguments, int64_t batch, int64_t rows,
              const float* queries = nullptr);

  bool may_run() const { return head(0).may_run_pages() && head(0).pages_follow(); }
  int64_t query_floats() const { return run_.heads * run_.key_bytes; }
  void load_queries(float* to) const;
  // Blocks of a run, at most: their weights have to stay in the second cache.
  int64_t most_blocks() const;
  // Blocks from `block` to `end` - 1 at most that can run: the first few, 0 if none.
  int64_t run_length(int64_t block, int64_t end) const;
  // Finds pages and memory of so many blocks; false: a page is missing.
  bool load(int64_t block, int64_t blocks);
  // What a run sets, [block][head]: largest scores and sums in memory of its own and no products,
  // until changed.
  std::span<AttentionState> results() { return {results_, count_}; }
  // All is merged into a state of each head, if not null; results then need no products.
  void run(const AttentionState* merged);
  // Memory for these states.
  std::span<AttentionState> states() { return {states_, static_cast<size_t>(p_.key_heads)}; }

 private:
  AttentionTiles head(int64_t index) const { return {p_, kernels_, x_, batch_, index, 0, rows_}; }
  void place(ScratchLayout carver, int64_t blocks);

  const AttentionProblem& p_;
  const AttentionKernels& kernels_;
  const AttentionArguments& x_;
  const int64_t batch_;
  const int64_t rows_;
  PagedDecode run_;
  size_t count_ = 0;
  int64_t bytes_ = 0;
  std::array<int32_t, kQueryLines> places_{};
  float* sums_ = nullptr;
  const std::byte** k_ = nullptr;
  const std::byte** v_ = nullptr;
  AttentionState* results_ = nullptr;
  AttentionState* states_ = nullptr;
};

}  // namespace lathe::cpu

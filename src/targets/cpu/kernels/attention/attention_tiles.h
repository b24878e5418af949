// SPDX-License-Identifier: MIT
// An attention task: tiles of query rows of one KV head times a range of key blocks.
#pragma once

#include <span>

#include "targets/cpu/kernels/attention/attention.h"
#include "targets/cpu/kernels/attention/attention_table.h"
#include "targets/cpu/kernels/common/scratch.h"

namespace lathe::cpu {

// Row r of a KV head is query r / group of head r % group in its GQA group.
class AttentionTiles {
 public:
  // `rows` rows from `first_row` on.
  AttentionTiles(const AttentionProblem& problem, const AttentionKernels& kernels,
                 const AttentionArguments& arguments, int64_t batch, int64_t key_head,
                 int64_t first_row, int64_t rows);

  // Lays out the task's scratch; without memory, `layout` only adds up sizes.
  void place(ScratchLayout& layout);
  void load_queries();
  // Called some time before load_queries and finish.
  void prefetch_queries() const { prefetch_rows(x_.q, p_.query, p_.size); }
  void prefetch_results() const { prefetch_rows(x_.y, p_.result, p_.value_size); }

  // The blocks of keys that some row attends to: [first_block, last_block).
  int64_t first_block() const { return lowest(0) / kKeyBlock; }
  int64_t last_block() const;
  int64_t last_key() const { return highest(rows_ - 1); }  // that some row attends to

  // Prefetches the rows of keys and values that some row attends to.
  void prefetch_block(int64_t block) const;

  int64_t tiles() const { return (rows_ + tile_rows_ - 1) / tile_rows_; }
  int64_t pitch(int64_t tile) const;  // rows of a tile in full vectors
  int64_t value_size() const { return value_size_; }
  int64_t value_pitch() const;  // of a row of values in full vectors
  // load_block makes the keys and values of a block readable; run then multiplies tiles by it. run
  // returns false if no row of the tile attends to a key of the block.
  void load_block(int64_t block);
  // Keys of a block, and what to prefetch while block `end` - 1 runs.
  AttentionPrefetch key_prefetch(int64_t block) const;
  void set_next(int64_t end, const AttentionPrefetch& next) {
    end_ = end;
    next_task_ = next;
  }
  bool run(int64_t tile, const AttentionState& result);
  // True if full blocks can use contiguous decode.
  bool may_use_contiguous() const;
  // Number of blocks from `block` on, below `end`, for contiguous decode instead of load_block and
  // run; 0 if none.
  int64_t contiguous_count(int64_t block, int64_t end) const;
  // Sets maximum and sum of `results`, which must stay valid. contiguous_values adds the outputs,
  // or merges all into `merged` if it is not null.
  void contiguous_keys(int64_t block, std::span<const AttentionState> results,
                       const AttentionState* merged);
  void contiguous_values(int64_t index) { kernels_.contiguous_values(contiguous_, index, rows_); }
  // Paged decode of all KV heads: whether it is supported, the number of blocks, the layout, and
  // the pages of the blocks. find_pages returns false if a page is missing.
  bool may_use_paged() const;
  bool pages_consecutive() const;  // pages are consecutive in memory, or long
  int64_t paged_count(int64_t block, int64_t end) const;
  void describe(PagedDecode& call) const;
  bool find_pages(int64_t block, const PagedDecode& call, const std::byte** k,
                  const std::byte** v) const;
  const float* queries() const { return queries_; }
  // Switches to the decode layout if the rows allow it: `run` then writes outputs as
  // [rows][value_pitch].
  void use_decode_layout() { decode_ = rows_ <= kernels_.max_decode_rows; }
  bool decode() const { return decode_; }
  // Writes the rows of a tile from their state: vectors along rows or, if `by_rows`, along values.
  void finish(int64_t tile, const AttentionState& state, bool by_rows);
  // A block's output as [rows][value_pitch].
  void transpose_output(int64_t tile, const float* output, float* to) const;

 private:
  int64_t query(int64_t row) const { return x_.queries == 1 ? 0 : (first_row_ + row) / group_; }
  int64_t head(int64_t row) const { return key_head_ * group_ + (first_row_ + row) % group_; }
  int64_t tile_count(int64_t tile) const;
  // The first and last key of a row by window and length; the last may be before the first.
  int64_t lowest(int64_t row) const;
  int64_t highest(int64_t row) const;
  std::byte* row_of(const AttentionRows& rows, ElementType type, int64_t row) const;
  bool reads_queries_in_place() const;
  void prefetch_row(const AttentionRows& rows, ElementType type, int64_t row, int64_t size) const;
  void prefetch_rows(const AttentionRows& rows, ElementType type, int64_t size) const {
    for (int64_t row = 0; row < rows_; ++row) prefetch_row(rows, type, row, size);
  }
  const std::byte* key_row(const AttentionCache& cache, int64_t key) const;
  bool has_uniform_stride(const AttentionCache& cache) const;
  bool blocks_fit() const;
  int64_t full_blocks(int64_t block, int64_t end) const;
  bool find_segments(const AttentionCache& cache, int64_t begin, int64_t keys,
                     const std::byte** to) const;
  const float* scales_of(const AttentionCache& cache, float* to, int64_t& step) const;
  void load_rows(const AttentionCache& cache, int64_t size, int64_t pitch, std::byte* to) const;
  AttentionPrefetch row_prefetch(const AttentionCache& cache, int64_t size, int64_t block,
                                 int64_t calls, const std::byte* const* segments = nullptr) const;
  bool has_bias() const { return x_.bias.data != nullptr || x_.slopes != nullptr; }
  void slope_row(int64_t row, int64_t keys, float* to) const;
  const float* load_bias(int64_t tile, int64_t keys, int64_t& pitch);

  const AttentionProblem& p_;
  const AttentionKernels& kernels_;
  const AttentionArguments& x_;
  const int64_t batch_;
  const int64_t key_head_;
  const int64_t first_row_;
  const int64_t rows_;
  const int64_t group_;
  const int64_t tile_rows_;
  const int64_t size_;        // rounded up to size_step
  const int64_t value_size_;  // rounded up to value_step
  const int64_t right_;
  const ElementType element_;
  const int64_t element_bytes_;
  const int64_t cache_bytes_;
  int64_t length_;
  bool decode_ = false;
  int64_t end_ = -1;
  AttentionPrefetch next_task_;

  int64_t begin_ = 0;  // first key of the loaded block
  int64_t keys_ = 0;
  AttentionBlock block_;
  ContiguousDecode contiguous_;
  AttentionPrefetch next_k_;
  int64_t next_block_ = -1;  // block of next_k_, if it has the same rows
  AttentionPrefetch next_v_;
  float* queries_ = nullptr;
  float* query_scales_ = nullptr;  // of int16
  float* rows_scratch_ = nullptr;  // one tile's rows in the layout of q and y
  std::byte* keys_scratch_ = nullptr;
  std::byte* values_rows_ = nullptr;
  std::byte* values_scratch_ = nullptr;
  float* scores_ = nullptr;
  float* weights_ = nullptr;
  float* factors_ = nullptr;
  float* bias_ = nullptr;
  float* bias_rows_ = nullptr;
  float* limits_ = nullptr;
  float* scales_ = nullptr;
};

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// One task of attention: a few tiles of query rows of one key head, against a range of key blocks.
#pragma once

#include <span>

#include "targets/cpu/kernels/attention/attention.h"
#include "targets/cpu/kernels/attention/attention_table.h"
#include "targets/cpu/kernels/common/scratch.h"

namespace lathe::cpu {

// Row r of a key head is query r / group of head r % group among the heads that read it.
class AttentionTiles {
 public:
  // `rows` rows from `first_row` on.
  AttentionTiles(const AttentionProblem& problem, const AttentionKernels& kernels,
                 const AttentionArguments& arguments, int64_t batch, int64_t key_head,
                 int64_t first_row, int64_t rows);

  // Places the task's memory; `carver` without memory only adds up.
  void place(ScratchLayout& carver);
  void load_queries();
  // Into the cache, some time before load_queries and finish.
  void fetch_queries() const { fetch_rows(x_.q, p_.query, p_.size); }
  void fetch_results() const { fetch_rows(x_.y, p_.result, p_.value_size); }

  // The blocks of keys that some row may see: [first_block, last_block).
  int64_t first_block() const { return lowest(0) / kKeyBlock; }
  int64_t last_block() const;

  int64_t tiles() const { return (rows_ + tile_rows_ - 1) / tile_rows_; }
  int64_t pitch(int64_t tile) const;  // rows of a tile in whole vectors
  int64_t value_size() const { return value_size_; }
  int64_t value_pitch() const;  // of a row of values in whole vectors
  // Makes the keys and values of a block readable, then runs tiles against it. False: no row of the
  // tile sees a key of the block.
  void load_block(int64_t block);
  // Keys of a block, and what to fetch while block `end` - 1 runs.
  AttentionPrefetch keys_ahead(int64_t block) const;
  void follow(int64_t end, const AttentionPrefetch& next) {
    end_ = end;
    follow_ = next;
  }
  bool run(int64_t tile, const AttentionState& result);
  // Whether whole blocks may run together, in one pass over all their keys.
  bool may_run() const;
  // Blocks from `block` to `end` - 1 at most that can run together, in place of load_block and
  // run: the first few, 0 if none.
  int64_t run_length(int64_t block, int64_t end) const;
  // Sets largest scores and sums of so many results, which have to stay; their products come one by
  // one, or all is merged into `merged`, if not null.
  void run_keys(int64_t block, std::span<const AttentionState> results,
                const AttentionState* merged);
  void run_values(int64_t index) { kernels_.run_values(run_, index, rows_); }
  // The same of all key heads together, in the order of their pages: whether blocks may, how many
  // can, how they lie, and where the pages of a run's blocks begin; false: one is missing.
  bool may_run_pages() const;
  bool pages_follow() const;  // one another in memory, or are long
  int64_t pages_length(int64_t block, int64_t end) const;
  void describe(PagedDecode& run) const;
  bool find_pages(int64_t block, const PagedDecode& run, const std::byte** k,
                  const std::byte** v) const;
  const float* queries() const { return queries_; }
  // Where the rows are few: from now on `run` gives products as [rows][value_pitch].
  void take_rows() { few_ = rows_ <= kernels_.few_rows; }
  bool few() const { return few_; }
  // Writes the rows of a tile from their state: vectors along rows or, `by_rows`, along values.
  void finish(int64_t tile, const AttentionState& state, bool by_rows);
  // A block's product as [rows][value_pitch].
  void turn(int64_t tile, const float* product, float* to) const;

 private:
  int64_t query(int64_t row) const { return x_.queries == 1 ? 0 : (first_row_ + row) / group_; }
  int64_t head(int64_t row) const { return key_head_ * group_ + (first_row_ + row) % group_; }
  int64_t tile_count(int64_t tile) const;
  // The first and last key allowed to a row by window and length; the last may lie before the
  // first.
  int64_t lowest(int64_t row) const;
  int64_t highest(int64_t row) const;
  std::byte* row_of(const AttentionRows& rows, ElementType type, int64_t row) const;
  void fetch_row(const AttentionRows& rows, ElementType type, int64_t row, int64_t size) const;
  void fetch_rows(const AttentionRows& rows, ElementType type, int64_t size) const {
    for (int64_t row = 0; row < rows_; ++row) fetch_row(rows, type, row, size);
  }
  const std::byte* key_row(const AttentionCache& cache, int64_t key) const;
  bool side_by_side(const AttentionCache& cache) const;
  bool blocks_fit() const;
  int64_t whole_blocks(int64_t block, int64_t end) const;
  bool find_segments(const AttentionCache& cache, int64_t begin, int64_t keys,
                     const std::byte** to) const;
  const float* scales_of(const AttentionCache& cache, float* to, int64_t& step) const;
  void load_rows(const AttentionCache& cache, int64_t size, int64_t pitch, std::byte* to) const;
  AttentionPrefetch rows_ahead(const AttentionCache& cache, int64_t size, int64_t block,
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
  const int64_t size_;        // rounded up to the kernels' steps
  const int64_t value_size_;  // the same
  const int64_t right_;
  const ElementType element_;
  const int64_t element_bytes_;
  const int64_t cache_bytes_;
  int64_t length_;
  bool few_ = false;
  int64_t end_ = -1;
  AttentionPrefetch follow_;

  int64_t begin_ = 0;  // of the block loaded
  int64_t keys_ = 0;
  AttentionBlock block_;
  ContiguousDecode run_;
  AttentionPrefetch next_k_;
  int64_t next_block_ = -1;  // the block whose keys they are, if it is of the same rows
  AttentionPrefetch next_v_;
  float* queries_ = nullptr;
  float* query_scales_ = nullptr;  // of integers
  float* rows_scratch_ = nullptr;  // one tile's rows as they lie in q and y
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

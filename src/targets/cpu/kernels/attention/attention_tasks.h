// SPDX-License-Identifier: MIT
// Tasks of split attention: ranges of key blocks of a tile of query rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe::cpu {

// Blocks [block, block + count) of a tile; tile -1: none.
struct AttentionTask {
  int64_t tile = -1;
  int64_t block = 0;
  int64_t count = 0;
};

// Keys of a tile: blocks [first, last), the last of which may be partial.
struct AttentionKeys {
  int64_t first = 0;
  int64_t last = 0;
  int64_t keys = 0;  // position after the last key
};

// Few blocks: each thread gets a share of as many keys, tile after tile, so that it has few and
// long tasks. Shares have the same number of tasks, some of which are empty. A task that begins a
// tile for the next share is the first of its share, and one that continues a tile the last: so
// blocks are mostly computed in ascending order, in which they are merged.
class AttentionShares {
 public:
  // `all`: of each batch row, which has `heads` consecutive tiles. A tile's tasks cover [0,
  // blocks).
  void assign(std::span<const AttentionKeys> all, int64_t heads, int64_t blocks, int64_t shares);
  const std::vector<AttentionTask>& tasks() const { return tasks_; }
  // The task that the same share runs after task `i`.
  AttentionTask after(int64_t i) const;

 private:
  struct Shared {
    int64_t share;
    AttentionTask task;
  };
  std::vector<Shared> ranges_;
  std::vector<AttentionTask> tasks_;
  int64_t per_share_ = 1;
};

}  // namespace lathe::cpu

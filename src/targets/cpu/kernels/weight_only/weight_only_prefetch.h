// SPDX-License-Identifier: MIT
// Prefetches packed weights from memory while others are multiplied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "targets/cpu/kernels/weight_only/weight_only_table.h"

namespace lathe::cpu {

// Prefetches up to `blocks` blocks of the first `count` panels of `from`, in `steps` calls of
// fetch().
class PanelPrefetcher {
 public:
  PanelPrefetcher(const PackedPanels& from, int64_t count, int64_t block, int64_t blocks,
                  int64_t steps)
      : count_(count), panel_bytes_(from.panel_bytes) {
    const int64_t cell_blocks = from.block < kTile ? 2 : 1;
    const int64_t last = std::min(from.blocks, block + blocks);
    at_ = from.data + block / cell_blocks * from.cell_bytes;
    end_ = from.data + (last + cell_blocks - 1) / cell_blocks * from.cell_bytes;
    part_ = ((end_ - at_) / steps + kCacheLine) / kCacheLine * kCacheLine;
  }

  void fetch() {
    for (const uint8_t* const stop = std::min(end_, at_ + part_); at_ < stop; at_ += kCacheLine) {
      for (int64_t i = 0; i < count_; ++i) __builtin_prefetch(at_ + i * panel_bytes_, 0, 2);
    }
  }

 private:
  static constexpr int64_t kCacheLine = 64;
  int64_t count_;
  int64_t panel_bytes_;
  int64_t part_;
  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Chunks of a parallel region: nearly equal ones, and the last ones of each thread's share split
// for load balance.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lathe::cpu {

// The least grain with as many chunks: a low last chunk would move rows from one thread's share to
// another's.
inline int64_t even_grain(int64_t count, int64_t grain) {
  const int64_t chunks = std::max<int64_t>(1, (count + grain - 1) / grain);
  return std::max<int64_t>(1, (count + chunks - 1) / chunks);
}

// A slow thread delays the end of the region by the chunk that it runs. Smaller pieces shorten that
// wait, but each has a start-up cost. So only the last chunks of each thread's share
// (base/thread_pool.h) are split.
class ChunkSplitter {
 public:
  struct Part {
    int64_t chunk, part, parts;
    // Rows [begin, end) of the chunk, rounded to tiles.
    int64_t begin(int64_t rows, int64_t tile) const { return from(part, rows, tile); }
    int64_t end(int64_t rows, int64_t tile) const { return from(part + 1, rows, tile); }

   private:
    int64_t from(int64_t i, int64_t rows, int64_t tile) const {
      return std::min(rows, (rows * i / parts + tile - 1) / tile * tile);
    }
  };

  ChunkSplitter(int64_t chunks, int64_t threads, int64_t parts)
      : chunks_(chunks),
        threads_(threads),
        parts_(parts),
        split_(threads == 1 || parts == 1 ? 0 : std::min(kMaxSplit, chunks / threads / kMinShare)) {
  }

  int64_t count() const { return chunks_ + threads_ * split_ * (parts_ - 1); }

  Part operator[](int64_t index) const {
    // The first shares have one chunk more.
    const int64_t longer = chunks_ % threads_, length = count() / threads_;
    const int64_t share =
        index < longer * (length + 1) ? index / (length + 1) : (index - longer) / length;
    const int64_t chunks = chunks_ / threads_ + (share < longer ? 1 : 0);
    const int64_t first = chunks_ / threads_ * share + std::min(share, longer);
    const int64_t i = index - length * share - std::min(share, longer), unsplit = chunks - split_;
    if (i < unsplit) return {first + i, 0, 1};
    return {first + unsplit + (i - unsplit) / parts_, (i - unsplit) % parts_, parts_};
  }

 private:
  static constexpr int64_t kMaxSplit = 2;
  static constexpr int64_t kMinShare = 2;  // chunks in a share for each one that is split

  int64_t chunks_;
  int64_t threads_;
  int64_t parts_;
  int64_t split_;  // chunks of each share that are split
};

}  // namespace lathe::cpu

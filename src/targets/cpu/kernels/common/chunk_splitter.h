// SPDX-License-Identifier: MIT
// Chunks of a region, the last ones of each thread's share in parts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lathe::cpu {

// Threads that began together do not end together where one is slower for a while. What is left
// then goes to the others, if it has not begun: smaller pieces leave less to wait for, but each
// pays for its beginning, so only the last chunks of each thread's share (base/thread_pool.h) are
// cut.
class ChunkParts {
 public:
  struct Part {
    int64_t chunk, part, parts;
    // Of its chunk's rows: those from `begin` to `end`, in whole tiles.
    int64_t begin(int64_t rows, int64_t tile) const { return from(part, rows, tile); }
    int64_t end(int64_t rows, int64_t tile) const { return from(part + 1, rows, tile); }

   private:
    int64_t from(int64_t i, int64_t rows, int64_t tile) const {
      return std::min(rows, (rows * i / parts + tile - 1) / tile * tile);
    }
  };

  ChunkParts(int64_t chunks, int64_t threads, int64_t parts)
      : chunks_(chunks),
        threads_(threads),
        parts_(parts),
        cut_(threads == 1 || parts == 1 ? 0 : std::min(kMostCut, chunks / threads / kLeastShare)) {}

  int64_t count() const { return chunks_ + threads_ * cut_ * (parts_ - 1); }

  Part operator[](int64_t index) const {
    // The first shares of a region are longer by one.
    const int64_t longer = chunks_ % threads_, length = count() / threads_;
    const int64_t share =
        index < longer * (length + 1) ? index / (length + 1) : (index - longer) / length;
    const int64_t chunks = chunks_ / threads_ + (share < longer ? 1 : 0);
    const int64_t first = chunks_ / threads_ * share + std::min(share, longer);
    const int64_t i = index - length * share - std::min(share, longer), whole = chunks - cut_;
    if (i < whole) return {first + i, 0, 1};
    return {first + whole + (i - whole) / parts_, (i - whole) % parts_, parts_};
  }

 private:
  static constexpr int64_t kMostCut = 2;
  static constexpr int64_t kLeastShare = 2;  // chunks of a share for each that is cut

  int64_t chunks_;
  int64_t threads_;
  int64_t parts_;
  int64_t cut_;  // of each share
};

}  // namespace lathe::cpu

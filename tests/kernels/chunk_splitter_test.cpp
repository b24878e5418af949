// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/common/chunk_splitter.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lathe::cpu {
namespace {

// The share of `index` when `count` items are split into `shares`, as the thread pool splits them.
int64_t share_of(int64_t index, int64_t count, int64_t shares) {
  int64_t end = 0;
  for (int64_t share = 0; share < shares; ++share) {
    end += count / shares + (share < count % shares ? 1 : 0);
    if (index < end) return share;
  }
  return shares;
}

TEST(ChunkSplitter, EveryPartRunsOnceInTheShareOfItsChunk) {
  for (const int64_t threads : {1, 2, 3, 8}) {
    for (int64_t chunks = 0; chunks < 70; ++chunks) {
      for (const int64_t parts : {1, 2, 4, 5}) {
        const ChunkSplitter all(chunks, threads, parts);
        int64_t chunk = -1, part = 0, last = 0;  // previous part, and the parts of its chunk
        for (int64_t i = 0; i < all.count(); ++i) {
          const ChunkSplitter::Part now = all[i];
          ASSERT_EQ(now.chunk, part + 1 >= last ? chunk + 1 : chunk);
          ASSERT_EQ(now.part, part + 1 >= last ? 0 : part + 1);
          ASSERT_EQ(share_of(i, all.count(), threads), share_of(now.chunk, chunks, threads));
          chunk = now.chunk;
          part = now.part;
          last = now.parts;
        }
        ASSERT_EQ(chunk + 1, chunks);
        ASSERT_TRUE(part + 1 >= last);
      }
    }
  }
}

TEST(ChunkSplitter, OnlyTheLastChunksOfAShareAreSplit) {
  const ChunkSplitter all(32, 2, 4);
  EXPECT_EQ(all.count(), 2 * (14 + 2 * 4));
  EXPECT_EQ(all[13].parts, 1);
  EXPECT_EQ(all[14].chunk, 14);
  EXPECT_EQ(all[14].parts, 4);
  EXPECT_EQ(all[21].chunk, 15);
  EXPECT_EQ(all[22].chunk, 16);
  EXPECT_EQ(ChunkSplitter(32, 1, 4).count(), 32);
  EXPECT_EQ(ChunkSplitter(2, 2, 4).count(), 2);
}

TEST(ChunkSplitter, RowsAreSplitAtTileBoundaries) {
  for (const int64_t rows : {1, 6, 7, 32, 128, 130}) {
    for (const int64_t tile : {1, 6, 16}) {
      int64_t end = 0;
      for (int64_t part = 0; part < 4; ++part) {
        const ChunkSplitter::Part cut{0, part, 4};
        EXPECT_EQ(cut.begin(rows, tile), end);
        EXPECT_GE(cut.end(rows, tile), end);
        end = cut.end(rows, tile);
        EXPECT_TRUE(end % tile == 0 || end == rows);
      }
      EXPECT_EQ(end, rows);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "targets/cpu/kernels/attention/attention_table.h"

namespace lathe::cpu::test {
namespace {

bool same(const AttentionTask& a, const AttentionTask& b) {
  return a.tile == b.tile && a.block == b.block && a.count == b.count;
}

TEST(AttentionShares, TheBeginningOfASharedTileRunsBeforeItsEnd) {
  AttentionShares shares;
  const std::vector<AttentionKeys> keys = {{0, 5, 545}};
  shares.assign(keys, 3, 5, 2);
  ASSERT_EQ(shares.tasks().size(), 4U);
  const std::vector<AttentionTask> expected = {{1, 0, 2}, {0, 0, 5}, {2, 0, 5}, {1, 2, 3}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same(shares.tasks()[i], expected[i])) << "task " << i;
  }
  EXPECT_TRUE(same(shares.after(0), expected[1]));
  EXPECT_TRUE(same(shares.after(1), {}));
  EXPECT_TRUE(same(shares.after(2), expected[3]));
}

TEST(AttentionShares, EachBlockIsInOneTaskOfAFairShare) {
  std::mt19937 random(1);
  const auto below = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  AttentionShares shares;
  for (int round = 0; round < 500; ++round) {
    std::vector<AttentionKeys> all(static_cast<size_t>(1 + below(4)));
    int64_t blocks = 1;
    for (AttentionKeys& keys : all) {
      keys.keys = below(1500);
      keys.last = (keys.keys + kKeyBlock - 1) / kKeyBlock;
      keys.first = keys.last == 0 ? 0 : below(keys.last);
      blocks = std::max(blocks, keys.last);
    }
    const int64_t heads = 1 + below(5), threads = 1 + below(9);
    shares.assign(all, heads, blocks, threads);
    const auto per_share = std::ssize(shares.tasks()) / threads;
    ASSERT_EQ(per_share * threads, std::ssize(shares.tasks()));
    std::vector<int> found(all.size() * static_cast<size_t>(heads * blocks));
    std::vector<int64_t> loads(static_cast<size_t>(threads));
    for (size_t i = 0; i < shares.tasks().size(); ++i) {
      const AttentionTask& task = shares.tasks()[i];
      if (task.tile < 0) continue;
      ASSERT_GT(task.count, 0);
      const AttentionKeys& keys = all[static_cast<size_t>(task.tile / heads)];
      for (int64_t block = task.block; block < task.block + task.count; ++block) {
        ++found[static_cast<size_t>(task.tile * blocks + block)];
        if (block < keys.first || block >= keys.last) continue;
        loads[i / static_cast<size_t>(per_share)] +=
            std::min(kKeyBlock, keys.keys - block * kKeyBlock);
      }
    }
    EXPECT_TRUE(std::ranges::all_of(found, [](int count) { return count == 1; }));
    int64_t total = 0;
    for (const int64_t load : loads) total += load;
    EXPECT_LE(std::ranges::max(loads) * threads, total * 17 / 16 + 2 * kKeyBlock * threads);
  }
}

}  // namespace
}  // namespace lathe::cpu::test

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_tasks.h"

#include <algorithm>

#include "targets/cpu/kernels/attention/attention_table.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kBlockKeys = 16;  // a block costs as much as some keys more than it has

int64_t cost_of(const AttentionKeys& keys, int64_t block) {
  return kBlockKeys + std::min(kKeyBlock, keys.keys - block * kKeyBlock);
}

}  // namespace

void AttentionShares::assign(std::span<const AttentionKeys> all, int64_t heads, int64_t blocks,
                             int64_t shares) {
  int64_t total = 0;
  for (const AttentionKeys& keys : all) {
    for (int64_t block = keys.first; block < keys.last; ++block) {
      total += heads * cost_of(keys, block);
    }
  }
  total = std::max<int64_t>(total, 1);
  // A block belongs to the share of its middle.
  ranges_.clear();
  int64_t before = 0, tile = 0;
  for (const AttentionKeys& keys : all) {
    for (int64_t head = 0; head < heads; ++head, ++tile) {
      const auto share_of = [&](int64_t at) { return std::min(at * shares / total, shares - 1); };
      ranges_.push_back({share_of(before), {tile, 0, blocks}});
      for (int64_t block = keys.first; block < keys.last; ++block) {
        const int64_t cost = cost_of(keys, block), share = share_of(before + cost / 2);
        before += cost;
        Shared& range = ranges_.back();
        if (block == keys.first) range.share = share;
        if (share == range.share) continue;
        range.task.count = block - range.task.block;
        ranges_.push_back({share, {tile, block, blocks - block}});
      }
    }
  }
  per_share_ = 1;
  for (size_t i = 0, begin = 0; i < ranges_.size(); ++i) {
    if (ranges_[i].share != ranges_[begin].share) begin = i;
    per_share_ = std::max(per_share_, static_cast<int64_t>(i - begin) + 1);
  }
  tasks_.assign(static_cast<size_t>(shares * per_share_), AttentionTask());
  for (size_t begin = 0, end = 0; begin < ranges_.size(); begin = end) {
    const int64_t share = ranges_[begin].share;
    AttentionTask* first = tasks_.data() + share * per_share_;
    AttentionTask* last = first;
    for (end = begin; end < ranges_.size() && ranges_[end].share == share; ++end) {
      *last++ = ranges_[end].task;
    }
    --last;
    if (first->block > 0 || last->block + last->count < blocks) std::swap(*first, *last);
  }
}

AttentionTask AttentionShares::after(int64_t i) const {
  return (i + 1) % per_share_ == 0 ? AttentionTask() : tasks_[static_cast<size_t>(i + 1)];
}

}  // namespace lathe::cpu

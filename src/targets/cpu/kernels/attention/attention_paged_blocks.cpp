// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_paged_blocks.h"

#include <algorithm>

namespace lathe::cpu {
namespace {

constexpr int64_t kWeightBytes = 64 << 10;
// Maxima and softmax denominators each occupy one full AVX-512 vector.
constexpr int64_t kSoftmaxFloats = 16;

}  // namespace

PagedBlocks::PagedBlocks(const AttentionProblem& problem, const AttentionKernels& kernels,
                         const AttentionArguments& arguments, int64_t batch, int64_t rows,
                         const float* queries)
    : p_(problem), kernels_(kernels), x_(arguments), batch_(batch), rows_(rows) {
  head(0).describe(call_);
  call_.heads = p_.key_heads;
  call_.queries = queries;
  const auto cache_lines = static_cast<uint32_t>(call_.key_bytes / kQueryCacheLine);
  for (uint32_t i = 0, place = 0; i < kMaxQueryCacheLines; ++i) {
    const auto at = static_cast<uint32_t>(reversed(i, kMaxQueryCacheLines));
    if (at < cache_lines) places_[at] = static_cast<int32_t>(kQueryCacheLine * place++);
  }
}

void PagedBlocks::load_queries(float* to) const {
  for (int64_t index = 0; index < call_.heads; ++index) {
    AttentionTiles tiles = head(index);
    tiles.use_decode_layout();
    ScratchLayout sizes;
    tiles.place(sizes);
    ScratchLayout layout(thread_scratch(ScratchUse::task, sizes.bytes()));
    tiles.place(layout);
    tiles.load_queries();
    const float* from = tiles.queries();
    for (int64_t i = 0; i < call_.key_bytes / kQueryCacheLine; ++i, from += kQueryCacheLine) {
      std::copy_n(from, kQueryCacheLine, to + places_[static_cast<size_t>(i)]);
    }
    to += call_.key_bytes;
  }
}

int64_t PagedBlocks::max_blocks() const {
  const int64_t bytes = p_.key_heads * rows_ * kKeyBlock * (kernels_.bf16 ? 2 : 4);
  return std::clamp<int64_t>(kWeightBytes / bytes, 1, kContiguousBlocks);
}

int64_t PagedBlocks::block_count(int64_t block, int64_t end) const {
  return std::min(head(0).paged_count(block, end), max_blocks());
}

void PagedBlocks::place(ScratchLayout layout, int64_t blocks) {
  const int64_t heads = p_.key_heads, all = heads * blocks;
  call_.scores = layout.take<float>(heads * rows_ * kKeyBlock);
  call_.weights =
      layout.take<float>(all * rows_ * kKeyBlock / (kernels_.bf16 ? 2 : 1) + kSoftmaxFloats);
  call_.softmax = layout.take<float>(heads * kPageSoftmax);
  call_.outputs = layout.take<float>(heads * rows_ * call_.value_size);
  call_.factors = layout.take<float>(2 * (all * kContiguousRows + kSoftmaxFloats));
  sums_ = layout.take<float>(all * 2 * kSoftmaxFloats);
  k_ = layout.take<const std::byte*>(blocks * kSegments);
  v_ = layout.take<const std::byte*>(blocks * kSegments);
  results_ = layout.take<AttentionState>(all);
  states_ = layout.take<AttentionState>(heads);
  bytes_ = layout.bytes();
}

bool PagedBlocks::load(int64_t block, int64_t blocks) {
  call_.blocks = blocks;
  place(ScratchLayout(), blocks);
  place(ScratchLayout(thread_scratch(ScratchUse::task, bytes_)), blocks);
  if (!head(0).find_pages(block, call_, k_, v_)) return false;
  call_.k = k_;
  call_.v = v_;
  call_.places = places_.data();
  count_ = static_cast<size_t>(call_.heads * blocks);
  float* sums = sums_;
  for (AttentionState& result : results()) {
    result = {nullptr, sums, sums + kSoftmaxFloats};
    sums += 2 * kSoftmaxFloats;
  }
  call_.results = results_;
  return true;
}

void PagedBlocks::run(const AttentionState* merged) {
  call_.merged = merged;
  kernels_.paged_decode(call_, rows_);
}

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention/attention_paged_blocks.h"

#include <algorithm>

namespace lathe::cpu {
namespace {

constexpr int64_t kWeightBytes = 64 << 10;
constexpr int64_t kSums = 16;  // of a block's largest scores and as many sums, in whole vectors

}  // namespace

PagedBlocks::PagedBlocks(const AttentionProblem& problem, const AttentionKernels& kernels,
                         const AttentionArguments& arguments, int64_t batch, int64_t rows,
                         const float* queries)
    : p_(problem), kernels_(kernels), x_(arguments), batch_(batch), rows_(rows) {
  head(0).describe(run_);
  run_.heads = p_.key_heads;
  run_.queries = queries;
  const auto lines = static_cast<uint32_t>(run_.key_bytes / kQueryLine);
  for (uint32_t i = 0, place = 0; i < kQueryLines; ++i) {
    const auto line = static_cast<uint32_t>(reversed(i, kQueryLines));
    if (line < lines) places_[line] = static_cast<int32_t>(kQueryLine * place++);
  }
}

void PagedBlocks::load_queries(float* to) const {
  for (int64_t i = 0; i < run_.heads; ++i) {
    AttentionTiles tiles = head(i);
    tiles.take_rows();
    ScratchLayout sizes;
    tiles.place(sizes);
    ScratchLayout carver(thread_scratch(ScratchUse::task, sizes.bytes()));
    tiles.place(carver);
    tiles.load_queries();
    const float* from = tiles.queries();
    for (int64_t line = 0; line < run_.key_bytes / kQueryLine; ++line, from += kQueryLine) {
      std::copy_n(from, kQueryLine, to + places_[static_cast<size_t>(line)]);
    }
    to += run_.key_bytes;
  }
}

int64_t PagedBlocks::most_blocks() const {
  const int64_t bytes = p_.key_heads * rows_ * kKeyBlock * (kernels_.bf16 ? 2 : 4);
  return std::clamp<int64_t>(kWeightBytes / bytes, 1, kContiguousBlocks);
}

int64_t PagedBlocks::run_length(int64_t block, int64_t end) const {
  return std::min(head(0).pages_length(block, end), most_blocks());
}

void PagedBlocks::place(ScratchLayout carver, int64_t blocks) {
  const int64_t heads = p_.key_heads, all = heads * blocks;
  run_.scores = carver.take<float>(heads * rows_ * kKeyBlock);
  run_.weights = carver.take<float>(all * rows_ * kKeyBlock / (kernels_.bf16 ? 2 : 1) + kSums);
  run_.softmax = carver.take<float>(heads * kPageSoftmax);
  run_.products = carver.take<float>(heads * rows_ * run_.value_size);
  run_.factors = carver.take<float>(2 * (all * kContiguousRows + kSums));
  sums_ = carver.take<float>(all * 2 * kSums);
  k_ = carver.take<const std::byte*>(blocks * kSegments);
  v_ = carver.take<const std::byte*>(blocks * kSegments);
  results_ = carver.take<AttentionState>(all);
  states_ = carver.take<AttentionState>(heads);
  bytes_ = carver.bytes();
}

bool PagedBlocks::load(int64_t block, int64_t blocks) {
  run_.blocks = blocks;
  place(ScratchLayout(), blocks);
  place(ScratchLayout(thread_scratch(ScratchUse::task, bytes_)), blocks);
  if (!head(0).find_pages(block, run_, k_, v_)) return false;
  run_.k = k_;
  run_.v = v_;
  run_.places = places_.data();
  count_ = static_cast<size_t>(run_.heads * blocks);
  float* sums = sums_;
  for (AttentionState& result : results()) {
    result = {nullptr, sums, sums + kSums};
    sums += 2 * kSums;
  }
  run_.results = results_;
  return true;
}

void PagedBlocks::run(const AttentionState* merged) {
  run_.merged = merged;
  kernels_.run_pages(run_, rows_);
}

}  // namespace lathe::cpu

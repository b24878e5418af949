// SPDX-License-Identifier: MIT
#include "base/thread_scratch.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>
#include <vector>

namespace lathe {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kLargestKept = size_t{16} << 20;
constexpr size_t kMostKept = 32;

void free_block(std::byte* data) { ::operator delete(data, kAlignment); }

// The free blocks of a thread.
struct Idle {
  struct Block {
    std::byte* data = nullptr;
    size_t size = 0;
  };
  std::vector<Block> blocks;

  Idle() { blocks.reserve(kMostKept); }
  ~Idle() {
    for (const Block& block : blocks) free_block(block.data);
  }

  // Returns the smallest block that fits; if none does, frees one and allocates.
  Block acquire(size_t size) {
    auto best = blocks.end();
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      if (block->size >= size && (best == blocks.end() || block->size < best->size)) best = block;
    }
    if (best == blocks.end()) {
      if (!blocks.empty()) {
        free_block(blocks.back().data);
        blocks.pop_back();
      }
      size = std::max<size_t>(std::bit_ceil(size), 64);
      return {static_cast<std::byte*>(::operator new(size, kAlignment)), size};
    }
    const Block taken = *best;
    *best = blocks.back();
    blocks.pop_back();
    return taken;
  }

  void release(Block block) {
    if (block.size > kLargestKept || blocks.size() == kMostKept) return free_block(block.data);
    blocks.push_back(block);
  }
};

Idle& idle() {
  thread_local Idle mine;
  return mine;
}

}  // namespace

ScratchBlock::ScratchBlock(int64_t bytes) {
  const Idle::Block block = idle().acquire(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  data_ = block.data;
  size_ = block.size;
}

ScratchBlock::ScratchBlock(ScratchBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

ScratchBlock& ScratchBlock::operator=(ScratchBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

ScratchBlock::~ScratchBlock() {
  if (data_ != nullptr) idle().release({data_, size_});
}

}  // namespace lathe

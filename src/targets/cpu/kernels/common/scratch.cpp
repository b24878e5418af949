// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/common/scratch.h"

#include <array>
#include <memory>
#include <new>

namespace lathe::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
};
struct Block {
  std::unique_ptr<std::byte, Free> memory;
  int64_t bytes = 0;
};

}  // namespace

std::byte* thread_scratch(ScratchUse use, int64_t bytes) {
  thread_local std::array<Block, kScratchUses> blocks;
  Block& block = blocks[static_cast<size_t>(use)];
  if (block.bytes < bytes || block.memory == nullptr) {
    const int64_t more = bytes + bytes / 4 + 64;
    block.memory.reset();
    block.bytes = 0;
    block.memory.reset(
        static_cast<std::byte*>(::operator new(static_cast<size_t>(more), kAlignment)));
    block.bytes = more;
  }
  return block.memory.get();
}

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/scratch.h"

#include <memory>
#include <new>

namespace lathe::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Release {
  void operator()(std::byte* pointer) const { ::operator delete[](pointer, kAlignment); }
};

struct Memory {
  std::unique_ptr<std::byte[], Release> bytes;
  size_t capacity = 0;
};

}  // namespace

void* thread_scratch(size_t bytes, Scratch use) {
  thread_local Memory memories[2];
  Memory& memory = memories[static_cast<size_t>(use)];
  if (bytes > memory.capacity) {
    const size_t larger = bytes + bytes / 4 + 4096;
    memory.bytes.reset();
    memory.capacity = 0;
    memory.bytes.reset(static_cast<std::byte*>(::operator new[](larger, kAlignment)));
    memory.capacity = larger;
  }
  return memory.bytes.get();
}

}  // namespace lathe::cpu

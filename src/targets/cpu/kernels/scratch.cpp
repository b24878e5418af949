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

}  // namespace

void* thread_scratch(size_t bytes) {
  thread_local std::unique_ptr<std::byte[], Release> memory;
  thread_local size_t capacity = 0;
  if (bytes > capacity) {
    const size_t larger = bytes + bytes / 4 + 4096;
    memory.reset();
    capacity = 0;
    memory.reset(static_cast<std::byte*>(::operator new[](larger, kAlignment)));
    capacity = larger;
  }
  return memory.get();
}

}  // namespace lathe::cpu

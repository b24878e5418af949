// SPDX-License-Identifier: MIT
// Counts heap allocations of all threads. The program that includes this replaces malloc().
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdint>

namespace lathe::bench {

inline std::atomic<bool> heap_counted{false};
inline std::atomic<int64_t> heap_allocations{0};

inline void count_allocation() {
  if (heap_counted.load(std::memory_order_relaxed)) {
    heap_allocations.fetch_add(1, std::memory_order_relaxed);
  }
}

// Allocations of all threads while `f` runs.
template <class F>
int64_t allocations_in(F&& f) {
  heap_allocations = 0;
  heap_counted = true;
  f();
  heap_counted = false;
  return heap_allocations;
}

// Bytes of live heap blocks.
inline int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace lathe::bench

// SPDX-License-Identifier: MIT
// Counts heap allocations of all threads. Included by one file of a program, whose malloc() it
// replaces.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

// Sanitizers replace the allocator.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define LATHE_INSTRUMENTED
#endif
#endif
#if defined(__GLIBC__) && !defined(LATHE_INSTRUMENTED) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LATHE_COUNTS_ALLOCATIONS
#endif

namespace lathe::test {

#ifdef LATHE_COUNTS_ALLOCATIONS
constexpr bool kCountsAllocations = true;
#else
constexpr bool kCountsAllocations = false;
#endif

inline std::atomic<bool> allocations_counted{false};
inline std::atomic<int64_t> allocations{0};

[[maybe_unused]] inline void count_allocation() {
  if (allocations_counted.load(std::memory_order_relaxed)) allocations.fetch_add(1);
}

// Allocations while `f` runs.
template <class F>
int64_t allocations_of(F&& f) {
  allocations = 0;
  allocations_counted = true;
  f();
  allocations_counted = false;
  return allocations;
}

}  // namespace lathe::test

#ifdef LATHE_COUNTS_ALLOCATIONS
// Exported, so that operator new of the libraries calls it, too.
#define LATHE_SEEN __attribute__((visibility("default")))
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

LATHE_SEEN void* malloc(size_t bytes) noexcept {
  lathe::test::count_allocation();
  return __libc_malloc(bytes);
}
LATHE_SEEN void* calloc(size_t count, size_t bytes) noexcept {
  lathe::test::count_allocation();
  return __libc_calloc(count, bytes);
}
LATHE_SEEN void* realloc(void* memory, size_t bytes) noexcept {
  lathe::test::count_allocation();
  return __libc_realloc(memory, bytes);
}
LATHE_SEEN void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  lathe::test::count_allocation();
  return __libc_memalign(alignment, bytes);
}
}
#endif

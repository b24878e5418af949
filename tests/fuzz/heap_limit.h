// SPDX-License-Identifier: MIT
// Counts what is allocated while an input is read: at most 64 MiB and eight times its bytes. The
// stack of the allocation that exceeds them is printed; so is, at the end, the largest sum.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace lathe {

class HeapLimit {
 public:
  explicit HeapLimit(size_t input_bytes) {
    static const int hooks = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    static const int printed = std::atexit(print);
    if (hooks == 0 || printed != 0) std::abort();
    allocated = 0;
    limit = static_cast<int64_t>((size_t{64} << 20) + 8 * input_bytes);
  }
  ~HeapLimit() { limit = kNone; }
  HeapLimit(const HeapLimit&) = delete;
  HeapLimit& operator=(const HeapLimit&) = delete;

 private:
  static constexpr int64_t kNone = -1;

  static void on_malloc(const volatile void*, size_t size) {
    const int64_t most = limit;
    if (most == kNone) return;
    const int64_t now = allocated += static_cast<int64_t>(size);
    if (now > largest) largest = now;
    if (now <= most) return;
    limit = kNone;
    std::fprintf(stderr, "%lld bytes are allocated, expected at most %lld\n",
                 static_cast<long long>(now), static_cast<long long>(most));
    std::abort();
  }
  static void on_free(const volatile void* block) {
    if (limit == kNone || block == nullptr) return;
    allocated -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<void*>(block)));
  }
  static void print() {
    std::fprintf(stderr, "stat::largest_heap_bytes:      %lld\n",
                 static_cast<long long>(largest.load()));
  }

  static inline std::atomic<int64_t> allocated, largest, limit = kNone;
};

}  // namespace lathe

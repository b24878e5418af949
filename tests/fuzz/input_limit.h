// SPDX-License-Identifier: MIT
// Counts what is allocated while an input is read, at most 64 MiB and eight times its bytes, and
// the processor time that it takes, at most 3 s: sanitizers make it several times as long. The
// stack of the allocation that exceeds them is printed; so are, at the end, the largest sum and
// time.
#pragma once

#include <sanitizer/allocator_interface.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace lathe {

class InputLimit {
 public:
  explicit InputLimit(size_t input_bytes) {
    static const int hooks = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    static const int printed = std::atexit(print);
    if (hooks == 0 || printed != 0) std::abort();
    allocated = 0;
    limit = static_cast<int64_t>((size_t{64} << 20) + 8 * input_bytes);
  }
  ~InputLimit() {
    limit = kNone;
    const double seconds = thread_seconds() - begin_;
    longest = seconds > longest ? seconds : longest;
    if (seconds <= kMostSeconds) return;
    std::fprintf(stderr, "the input takes %.2f s, expected at most %.2f\n", seconds, kMostSeconds);
    std::abort();
  }
  InputLimit(const InputLimit&) = delete;
  InputLimit& operator=(const InputLimit&) = delete;

 private:
  static constexpr int64_t kNone = -1;
  static constexpr double kMostSeconds = 3;

  // The wall clock depends on what else the machine does.
  static double thread_seconds() {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

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
    std::fprintf(stderr,
                 "stat::largest_heap_bytes:      %lld\nstat::longest_input_sec:       %.3f\n",
                 static_cast<long long>(largest.load()), longest);
  }

  static inline std::atomic<int64_t> allocated, largest, limit = kNone;
  static inline double longest = 0;
  const double begin_ = thread_seconds();
};

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "base/os_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace lathe {

void* reserve_pages(size_t bytes) {
  void* pointer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pointer == MAP_FAILED ? nullptr : pointer;
}

void* reserve_closed_pages(size_t bytes) {
  void* pointer =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pointer == MAP_FAILED ? nullptr : pointer;
}

bool open_pages(void* pointer, size_t bytes) {
  return mprotect(pointer, bytes, PROT_READ | PROT_WRITE) == 0;
}

size_t system_page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void release_pages(void* pointer, size_t bytes) noexcept { munmap(pointer, bytes); }

void discard_pages(void* pointer, size_t bytes) noexcept {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(pointer) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(pointer) + bytes) / page * page;
  // If it fails, the memory stays in use.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void prefer_large_pages(void* pointer, size_t bytes) {
  const auto begin = (reinterpret_cast<uintptr_t>(pointer) + kLargePage - 1) & ~(kLargePage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(pointer) + bytes) & ~(kLargePage - 1);
  // Advice only: errors are ignored.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "base/os_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

namespace lathe {

void* reserve_pages(size_t bytes) {
  void* pointer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pointer == MAP_FAILED ? nullptr : pointer;
}

void release_pages(void* pointer, size_t bytes) noexcept { munmap(pointer, bytes); }

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace lathe

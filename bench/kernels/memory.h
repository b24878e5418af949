// SPDX-License-Identifier: MIT
// Memory for operands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace lathe::bench {

// What malloc of every process is told, ours and the peers': operands lie side by side on large
// pages, as they do in the arena of a plan and in its packed weights.
inline constexpr const char* kMallocVariable = "GLIBC_TUNABLES";
inline constexpr const char* kMallocSettings =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824";

// Zeroed memory that begins at a cache line.
class Pages {
 public:
  explicit Pages(int64_t bytes) {
    constexpr int64_t kLine = 64;
    const auto size =
        static_cast<size_t>((std::max<int64_t>(bytes, 1) + kLine - 1) / kLine * kLine);
    data_ = std::aligned_alloc(kLine, size);
    check(data_ != nullptr, ErrorKind::out_of_memory, "no {} bytes of memory", bytes);
    std::memset(data_, 0, size);
  }
  ~Pages() { std::free(data_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  float* floats() const { return static_cast<float*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace lathe::bench

// SPDX-License-Identifier: MIT
// Operand allocation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace lathe::bench {

// malloc settings of Lathe and all peers: operands lie on large pages, as a plan's arena and packed
// weights do.
inline constexpr const char* kMallocVariable = "GLIBC_TUNABLES";
inline constexpr const char* kMallocSettings =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824";

// Zeroed memory, aligned to a cache line.
class Pages {
 public:
  explicit Pages(int64_t bytes) {
    constexpr int64_t kLine = 64;
    const auto size =
        static_cast<size_t>((std::max<int64_t>(bytes, 1) + kLine - 1) / kLine * kLine);
    data_ = std::aligned_alloc(kLine, size);
    check(data_ != nullptr, ErrorKind::out_of_memory, "cannot allocate {} bytes", bytes);
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

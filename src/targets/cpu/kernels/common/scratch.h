// SPDX-License-Identifier: MIT
// Memory for what a kernel keeps between its steps: per thread, grown when needed, never shrunk.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::cpu {

// Whose memory: a region's caller keeps its own while it also runs tasks, and calls products, which
// have theirs.
enum class ScratchUse : uint8_t { caller, task, gemm_rows, gemm_panels, split_k_parts };
inline constexpr int kScratchUses = 5;

// At least `bytes` bytes, aligned to 64, until the thread's next call for the same use.
std::byte* thread_scratch(ScratchUse use, int64_t bytes);

// Cuts one block of memory into aligned arrays: first adds up their sizes, then places them.
class ScratchLayout {
 public:
  explicit ScratchLayout(std::byte* base = nullptr) : base_(base) {}
  template <class T>
  T* take(int64_t count) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(at);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

}  // namespace lathe::cpu

// SPDX-License-Identifier: MIT
// Per-thread scratch of a kernel: grows on demand, never shrinks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe::cpu {

// Separate blocks: the caller of a region keeps its block while it runs tasks, and tasks call
// GEMMs.
enum class ScratchUse : uint8_t { caller, task, gemm_rows, gemm_panels, split_k_parts };
inline constexpr int kScratchUses = 5;

// At least `bytes` bytes, aligned to 64, valid until the thread's next call for the same use.
std::byte* thread_scratch(ScratchUse use, int64_t bytes);

// Divides one block of memory into aligned arrays. Without a base it only adds up their sizes.
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

// SPDX-License-Identifier: MIT
// Per-thread scratch, reused across evaluations, so that repeated runs do not allocate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe {

class ScratchBlock {
 public:
  ScratchBlock() = default;
  explicit ScratchBlock(int64_t bytes);  // uninitialised, aligned to 64 bytes
  ScratchBlock(ScratchBlock&& other) noexcept;
  ScratchBlock& operator=(ScratchBlock&& other) noexcept;
  ~ScratchBlock();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// `count` uninitialised elements.
template <class T>
class ScratchArray {
 public:
  ScratchArray() = default;
  explicit ScratchArray(int64_t count)
      : memory_(count * static_cast<int64_t>(sizeof(T))), count_(static_cast<size_t>(count)) {}
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + count_; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

 private:
  ScratchBlock memory_;
  size_t count_ = 0;
};

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Memory of sessions: counted and limited, from the caller's allocator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tensor/tensor.h"

namespace lathe {

// Counts the allocations of another allocator and refuses those beyond a limit.
class MemoryBudget final : public Allocator {
 public:
  explicit MemoryBudget(Allocator& source, int64_t limit_bytes = 0)
      : source_(source), limit_(limit_bytes) {}
  void* allocate(size_t bytes, size_t alignment) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  // Counts memory from another source (a state's pages); OutOfMemory beyond the limit.
  void charge(int64_t bytes);
  bool try_charge(int64_t bytes) { return take(bytes); }  // false beyond the limit
  void release(int64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }
  Allocator& source() const { return source_; }

  // Deletes a budget after all its memory is released: results may outlive sessions.
  struct Retire {
    void operator()(MemoryBudget* budget) const noexcept { budget->drop_reference(); }
  };

 private:
  void drop_reference() noexcept;
  bool take(int64_t bytes);
  Allocator& source_;
  int64_t limit_;  // 0: none
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> references_{1};  // one of the owner, one per block
};

// Scratch memory that the budget of the current borrower pays for. Used by one thread at a time.
class BorrowedMemory final : public Allocator {
 public:
  explicit BorrowedMemory(Allocator& source) : source_(source) {}
  void* allocate(size_t bytes, size_t alignment) override;  // null beyond the borrower's limit
  void deallocate(void* pointer, size_t bytes) noexcept override;
  // Counts memory from another source, such as a range of addresses. False beyond the limit.
  bool charge(int64_t bytes);
  void discharge(int64_t bytes) noexcept;
  // Charges what is held. False, and no borrower, beyond the limit.
  bool lend(MemoryBudget& borrower);
  void take_back() noexcept;

 private:
  Allocator& source_;
  MemoryBudget* borrower_ = nullptr;
  int64_t held_ = 0;
};

// A block that never shrinks; reserve() loses the content when it grows.
class GrowingBuffer {
 public:
  explicit GrowingBuffer(Allocator& allocator) : allocator_(&allocator) {}
  GrowingBuffer(GrowingBuffer&& other) noexcept;
  GrowingBuffer& operator=(GrowingBuffer&&) = delete;
  ~GrowingBuffer();
  // Returns at least `bytes` bytes, 64-byte aligned. OutOfMemory if the allocation fails.
  void* reserve(int64_t bytes);
  // reserve() that keeps the first `keep` bytes.
  void* extend(int64_t bytes, int64_t keep);
  void* data() const { return data_; }

 private:
  Allocator* allocator_;
  void* data_ = nullptr;
  int64_t size_ = 0;
};

// True if `tensor` is the only owner of its memory, so that it may be overwritten.
bool held_alone(const Tensor& tensor);

}  // namespace lathe

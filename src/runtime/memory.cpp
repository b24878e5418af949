// SPDX-License-Identifier: MIT
#include "runtime/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace lathe {
namespace {

// Runs `undo` if there is no memory, or if a device's allocator throws.
template <class Undo>
void* allocate_or(Allocator& source, size_t bytes, size_t alignment, Undo&& undo) {
  void* pointer = nullptr;
  try {
    pointer = source.allocate(bytes, alignment);
  } catch (...) {
    undo();
    throw;
  }
  if (pointer == nullptr) undo();
  return pointer;
}

}  // namespace

bool MemoryBudget::take(int64_t bytes) {
  const int64_t now = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limit_ > 0 && now > limit_) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return true;
}

void* MemoryBudget::allocate(size_t bytes, size_t alignment) {
  if (!take(static_cast<int64_t>(bytes))) return nullptr;
  void* pointer =
      allocate_or(source_, bytes, alignment, [&] { release(static_cast<int64_t>(bytes)); });
  if (pointer != nullptr) {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    references_.fetch_add(1, std::memory_order_relaxed);
  }
  return pointer;
}

void MemoryBudget::deallocate(void* pointer, size_t bytes) noexcept {
  source_.deallocate(pointer, bytes);
  release(static_cast<int64_t>(bytes));
  drop_reference();
}

void MemoryBudget::drop_reference() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void MemoryBudget::charge(int64_t bytes) {
  check(take(bytes), ErrorKind::out_of_memory,
        "{} more bytes exceed the session's memory limit of {} bytes ({} in use)", bytes, limit_,
        used());
}

bool BorrowedMemory::charge(int64_t bytes) {
  if (borrower_ != nullptr && !borrower_->try_charge(bytes)) return false;
  held_ += bytes;
  return true;
}

void BorrowedMemory::discharge(int64_t bytes) noexcept {
  held_ -= bytes;
  if (borrower_ != nullptr) borrower_->release(bytes);
}

void* BorrowedMemory::allocate(size_t bytes, size_t alignment) {
  if (!charge(static_cast<int64_t>(bytes))) return nullptr;
  return allocate_or(source_, bytes, alignment, [&] { discharge(static_cast<int64_t>(bytes)); });
}

void BorrowedMemory::deallocate(void* pointer, size_t bytes) noexcept {
  source_.deallocate(pointer, bytes);
  discharge(static_cast<int64_t>(bytes));
}

bool BorrowedMemory::lend(MemoryBudget& borrower) {
  if (!borrower.try_charge(held_)) return false;
  borrower_ = &borrower;
  return true;
}

void BorrowedMemory::take_back() noexcept {
  if (borrower_ != nullptr) borrower_->release(held_);
  borrower_ = nullptr;
}

GrowingBuffer::GrowingBuffer(GrowingBuffer&& other) noexcept
    : allocator_(other.allocator_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

GrowingBuffer::~GrowingBuffer() {
  if (data_ != nullptr) allocator_->deallocate(data_, static_cast<size_t>(size_));
}

void* GrowingBuffer::reserve(int64_t bytes) { return extend(bytes, 0); }

void* GrowingBuffer::extend(int64_t bytes, int64_t keep) {
  bytes = std::max<int64_t>(bytes, 1);
  if (bytes <= size_) return data_;
  // Grows by half at least, to limit copies.
  const int64_t size = size_ == 0 ? bytes : std::max(bytes, size_ + size_ / 2);
  void* fresh = allocator_->allocate(static_cast<size_t>(size), 64);
  check(fresh != nullptr, ErrorKind::out_of_memory, "cannot allocate a buffer of {} bytes", size);
  if (keep > 0) std::memcpy(fresh, data_, static_cast<size_t>(keep));
  if (data_ != nullptr) allocator_->deallocate(data_, static_cast<size_t>(size_));
  data_ = fresh;
  size_ = size;
  return data_;
}

bool held_alone(const Tensor& tensor) {
  if (tensor.owner().use_count() != 1) return false;
  // use_count() does not synchronise; releasing a reference does, with the releases of other
  // owners.
  const std::shared_ptr<void> another = tensor.owner();
  return true;
}

}  // namespace lathe

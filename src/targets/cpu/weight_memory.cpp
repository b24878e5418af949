// SPDX-License-Identifier: MIT
#include "targets/cpu/weight_memory.h"

#include <mutex>

#include "base/error.h"
#include "base/os_memory.h"
#include "base/thread_pool.h"

namespace lathe::cpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kChunk = size_t{64} << 20;
constexpr size_t kMaxShared = size_t{16} << 20;  // a larger matrix has memory of its own

size_t pages_for(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Address space that begins at a large page; untouched pages use no memory.
struct Reservation {
  explicit Reservation(size_t bytes)
      : size(bytes < kLargePage ? bytes : bytes + kLargePage), begin(reserve_pages(size)) {
    check(begin != nullptr, ErrorKind::out_of_memory, "no memory for {} bytes of packed weights",
          bytes);
    data = begin;
    size_t room = size;
    if (size > bytes) std::align(kLargePage, bytes, data, room);
  }
  ~Reservation() { release_pages(begin, size); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  size_t size;
  void* begin;
  void* data = nullptr;
};

}  // namespace

struct WeightMemory::Chunk {
  Chunk(size_t bytes, size_t small) : memory(bytes) {
    prefer_large_pages(at(small), bytes - small);
  }
  std::byte* at(size_t offset) const { return static_cast<std::byte*>(memory.data) + offset; }
  // Accesses all pages before `end`, of a chunk of `size` bytes, and more large pages, of which
  // all threads have some: no more than are used.
  void touch(size_t end, size_t size, ThreadPool* pool) {
    if (end <= touched) return;
    if (pool != nullptr) {
      const size_t ahead = std::min(end, 2 * kLargePage * static_cast<size_t>(pool->threads()));
      if (end > kLargePage) end = (end + kLargePage - 1) / kLargePage * kLargePage;
      end = std::min(size, std::max(end, (touched + ahead) / kLargePage * kLargePage));
      touch_first(pool, at(touched), static_cast<int64_t>(end - touched));
    }
    touched = end;
  }
  Reservation memory;
  size_t used = 0;
  size_t touched = 0;
};

WeightMemory::WeightMemory(size_t bytes, ThreadPool* pool) : bytes_(pages_for(bytes)) {
  if (bytes_ > kMaxShared) {
    chunk_ = std::make_shared<Chunk>(bytes_, 0);
    data_ = chunk_->at(0);
    chunk_->touch(bytes_, bytes_, pool);
    return;
  }
  static std::mutex& mutex = *new std::mutex;  // weights may outlive statics
  static std::weak_ptr<Chunk>& current = *new std::weak_ptr<Chunk>;
  const std::lock_guard lock(mutex);
  chunk_ = current.lock();
  if (chunk_ == nullptr || chunk_->used + bytes_ > kChunk) {
    // A small model fills no large page.
    chunk_ = std::make_shared<Chunk>(kChunk, kLargePage);
    current = chunk_;
  }
  data_ = chunk_->at(chunk_->used);
  chunk_->used += bytes_;
  chunk_->touch(chunk_->used, kChunk, pool);
}

WeightMemory::~WeightMemory() {
  if (chunk_.use_count() > 1) discard_pages(data_, bytes_);
}

}  // namespace lathe::cpu

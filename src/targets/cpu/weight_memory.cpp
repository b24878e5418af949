// SPDX-License-Identifier: MIT
#include "targets/cpu/weight_memory.h"

#include <mutex>

#include "base/error.h"
#include "base/os_memory.h"

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
  Reservation memory;
  size_t used = 0;
};

WeightMemory::WeightMemory(size_t bytes) : bytes_(pages_for(bytes)) {
  if (bytes_ > kMaxShared) {
    chunk_ = std::make_shared<Chunk>(bytes_, 0);
    data_ = chunk_->at(0);
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
}

WeightMemory::~WeightMemory() {
  if (chunk_.use_count() > 1) discard_pages(data_, bytes_);
}

}  // namespace lathe::cpu

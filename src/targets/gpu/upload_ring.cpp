// SPDX-License-Identifier: MIT
#include "targets/gpu/upload_ring.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file_map.h"
#include "base/thread_pool.h"

namespace lathe::gpu {
namespace {

constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr size_t kBuffersPerThread = 2;

}  // namespace

UploadRing::~UploadRing() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.copied.native != nullptr) driver_.destroy(buffer.copied);
    driver_.free_pinned(buffer.data);
  }
}

// The buffer whose copy was enqueued longest ago, or one more while that one is in use and there
// are less than `most`.
UploadRing::Buffer& UploadRing::take(size_t most) {
  std::unique_lock lock(mutex_);
  const bool in_use =
      free_.empty() || (free_.front()->in_flight && !driver_.done(free_.front()->copied));
  if (in_use && buffers_.size() < most) return buffers_.emplace_back();
  given_.wait(lock, [this] { return !free_.empty(); });
  Buffer& buffer = *free_.front();
  free_.pop_front();
  return buffer;
}

void UploadRing::prepare(Buffer& buffer) {
  if (buffer.data == nullptr) {
    buffer.data = driver_.allocate_pinned(kBufferBytes);
    check(buffer.data != nullptr, ErrorKind::out_of_memory, "no {} bytes of pinned memory",
          kBufferBytes);
  }
  if (buffer.copied.native == nullptr) buffer.copied = driver_.make_event();
  if (buffer.in_flight) driver_.synchronize(buffer.copied);
  buffer.in_flight = false;
}

void UploadRing::give(Buffer& buffer) {
  free_.push_back(&buffer);
  given_.notify_one();
}

void UploadRing::copy(StreamHandle stream, void* to, const void* from, size_t bytes,
                      ThreadPool* pool) {
  const auto threads = static_cast<size_t>(pool == nullptr ? 1 : pool->threads());
  const auto copy_part = [&](size_t at) {
    const size_t size = std::min(kBufferBytes, bytes - at);
    Buffer& buffer = take(threads * kBuffersPerThread);
    try {
      prepare(buffer);
      const std::span source(static_cast<const std::byte*>(from) + at, size);
      std::memcpy(buffer.data, source.data(), size);
      // Here, many threads do it, and memory of the host never holds all weights.
      release_mapped(source);
      const std::lock_guard lock(mutex_);
      driver_.copy(stream, static_cast<std::byte*>(to) + at, buffer.data, size);
      driver_.record(stream, buffer.copied);
      buffer.in_flight = true;
      give(buffer);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      give(buffer);
      throw;
    }
  };
  const auto parts = static_cast<int64_t>((bytes + kBufferBytes - 1) / kBufferBytes);
  parallel_for(pool, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      copy_part(static_cast<size_t>(part) * kBufferBytes);
    }
  });
}

}  // namespace lathe::gpu

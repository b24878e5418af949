// SPDX-License-Identifier: MIT
#include "targets/gpu/upload_ring.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file_map.h"
#include "base/thread_pool.h"

namespace lathe::gpu {
PinnedBuffers::~PinnedBuffers() {
  wait_idle();
  release();
}

void PinnedBuffers::wait_idle() {
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
}

// After the work so far. Not by a thread that other work shares: that of libraries would end later
// than these at the end of the process.
template <class F>
void PinnedBuffers::start(F work) {
  const std::lock_guard lock(thread_mutex_);
  if (thread_.joinable()) thread_.join();
  try {
    thread_ = std::thread(work);
  } catch (const std::system_error&) {
    work();  // the system has no more threads
  }
}

void PinnedBuffers::expect(size_t count) {
  start([this, count] { make(count); });
}

void PinnedBuffers::make(size_t count) {
  try {
    for (size_t i = 0; i < count; ++i) {
      void* buffer = driver_.allocate_pinned(kBytes);
      if (buffer == nullptr) return;
      const std::lock_guard lock(mutex_);
      ready_.push_back(buffer);
    }
  } catch (const Error&) {
    // The upload makes what it needs, and reports it.
  }
}

void* PinnedBuffers::take() {
  const std::lock_guard lock(mutex_);
  if (ready_.empty()) return nullptr;
  void* buffer = ready_.back();
  ready_.pop_back();
  return buffer;
}

void PinnedBuffers::give(std::span<void* const> buffers) {
  if (buffers.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    ready_.insert(ready_.end(), buffers.begin(), buffers.end());
  }
  start([this] { release(); });
}

void PinnedBuffers::release() noexcept {
  std::vector<void*> buffers;
  {
    const std::lock_guard lock(mutex_);
    buffers.swap(ready_);
  }
  for (void* buffer : buffers) driver_.free_pinned(buffer);
}

UploadRing::~UploadRing() {
  std::vector<void*> were_ready;
  for (const Buffer& buffer : buffers_) {
    if (buffer.copied.native != nullptr) driver_.destroy(buffer.copied);
    if (buffer.was_ready) {
      were_ready.push_back(buffer.data);
    } else {
      driver_.free_pinned(buffer.data);
    }
  }
  pinned_.give(were_ready);
}

// The buffer whose copy was enqueued longest ago, or one more while that one is in use and there
// are less than `most`.
UploadRing::Buffer& UploadRing::take(size_t most) {
  std::unique_lock lock(mutex_);
  const auto in_use = [this] {
    return free_.empty() || (free_.front()->in_flight && !driver_.done(free_.front()->copied));
  };
  if (buffers_.size() < most && in_use()) return buffers_.emplace_back();
  given_.wait(lock, [this] { return !free_.empty(); });
  Buffer& buffer = *free_.front();
  free_.pop_front();
  return buffer;
}

void UploadRing::prepare(Buffer& buffer) {
  if (buffer.data == nullptr) {
    buffer.data = pinned_.take();
    buffer.was_ready = buffer.data != nullptr;
  }
  if (buffer.data == nullptr) {
    buffer.data = driver_.allocate_pinned(PinnedBuffers::kBytes);
    check(buffer.data != nullptr, ErrorKind::out_of_memory, "no {} bytes of pinned memory",
          PinnedBuffers::kBytes);
  }
  if (buffer.copied.native == nullptr) buffer.copied = driver_.make_event();
  if (buffer.in_flight) driver_.synchronize(buffer.copied);
  buffer.in_flight = false;
}

void UploadRing::give(Buffer& buffer) {
  free_.push_back(&buffer);
  given_.notify_one();
}

void UploadRing::copy(StreamHandle stream, std::span<const BlockCopy> blocks, ThreadPool* pool) {
  std::vector<BlockCopy> parts;
  for (const BlockCopy& block : blocks) {
    for (size_t at = 0; at < block.bytes; at += PinnedBuffers::kBytes) {
      parts.push_back({static_cast<std::byte*>(block.to) + at,
                       static_cast<const std::byte*>(block.from) + at,
                       std::min(PinnedBuffers::kBytes, block.bytes - at)});
    }
  }
  const auto threads = static_cast<size_t>(pool == nullptr ? 1 : pool->threads());
  const auto copy_part = [&](const BlockCopy& part) {
    Buffer& buffer = take(std::max(threads, std::min(2 * threads, kBuffers)));
    try {
      prepare(buffer);
      read_mapped({static_cast<const std::byte*>(part.from), part.bytes},
                  static_cast<std::byte*>(buffer.data));
      const std::lock_guard lock(mutex_);
      driver_.copy(stream, part.to, buffer.data, part.bytes);
      driver_.record(stream, buffer.copied);
      buffer.in_flight = true;
      give(buffer);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      give(buffer);
      throw;
    }
  };
  parallel_for(pool, std::ssize(parts), 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) copy_part(parts[static_cast<size_t>(part)]);
  });
}

}  // namespace lathe::gpu

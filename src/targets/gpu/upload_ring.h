// SPDX-License-Identifier: MIT
// Copies from memory of the host that is not pinned, or from mapped files: threads fill pinned
// buffers, from which the device copies meanwhile.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "plan/device.h"
#include "targets/gpu/driver/driver.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::gpu {

// Pinned memory that a thread makes ready before a large upload begins: that takes as long as
// copying a gigabyte. Thread-safe.
class PinnedBuffers {
 public:
  static constexpr size_t kBytes = size_t{2} << 20;  // of each
  explicit PinnedBuffers(Driver& driver) : driver_(driver) {}
  ~PinnedBuffers();
  PinnedBuffers(const PinnedBuffers&) = delete;
  PinnedBuffers& operator=(const PinnedBuffers&) = delete;

  void expect(size_t count);
  void* take();  // null: none is ready
  // What was taken; the thread frees all that are ready.
  void give(std::span<void* const> buffers);
  void wait_idle();  // until the thread has done its work

 private:
  void make(size_t count);
  void release() noexcept;
  template <class F>
  void start(F work);

  Driver& driver_;
  std::mutex mutex_;  // of ready_
  std::vector<void*> ready_;
  std::mutex thread_mutex_;
  std::thread thread_;
};

// A stream that uploads has one; what it enqueued must have run before it ends.
class UploadRing {
 public:
  // Two per thread, of which the device copies one while the other is filled. Where there would be
  // more than these, threads share them or have one each.
  static constexpr size_t kBuffers = 24;

  UploadRing(Driver& driver, PinnedBuffers& pinned) : driver_(driver), pinned_(pinned) {}
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Enqueues copies of blocks, by the threads of `pool` or the caller alone. On return nothing
  // reads the sources any more, also after an error; then parts may have been enqueued.
  void copy(StreamHandle stream, std::span<const BlockCopy> blocks, ThreadPool* pool);

 private:
  struct Buffer {
    void* data = nullptr;
    EventHandle copied;
    bool in_flight = false;
    bool was_ready = false;  // is the pinned buffers'
  };

  Buffer& take(size_t most);
  void prepare(Buffer& buffer);
  void give(Buffer& buffer);

  Driver& driver_;
  PinnedBuffers& pinned_;
  std::mutex mutex_;  // also of the stream, which one thread uses at a time
  std::condition_variable given_;
  std::deque<Buffer> buffers_;
  std::deque<Buffer*> free_;  // in the order of their copies
};

}  // namespace lathe::gpu

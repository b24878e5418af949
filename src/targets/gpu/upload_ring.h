// SPDX-License-Identifier: MIT
// Copies from memory of the host that is not pinned: threads fill pinned buffers, from which the
// device copies meanwhile. Pages of mapped files become resident, and are released, by these
// threads, too.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "targets/gpu/driver/driver.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::gpu {

// A stream that uploads has one; what it enqueued must have run before it ends.
class UploadRing {
 public:
  explicit UploadRing(Driver& driver) : driver_(driver) {}
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Enqueues the copy, by the threads of `pool` or the caller alone. On return nothing reads the
  // source any more, also after an error; then parts may have been enqueued.
  void copy(StreamHandle stream, void* to, const void* from, size_t bytes, ThreadPool* pool);

 private:
  struct Buffer {
    void* data = nullptr;
    EventHandle copied;
    bool in_flight = false;
  };

  Buffer& take(size_t most);
  void prepare(Buffer& buffer);
  void give(Buffer& buffer);

  Driver& driver_;
  std::mutex mutex_;  // also of the stream, which one thread uses at a time
  std::condition_variable given_;
  std::deque<Buffer> buffers_;
  std::deque<Buffer*> free_;  // in the order of their copies
};

}  // namespace lathe::gpu

// SPDX-License-Identifier: MIT
// Small copies, those of the host by way of pinned memory: what follows each other is one launch,
// and the host does not wait for any.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "targets/gpu/driver/driver.h"

namespace lathe::gpu {

class Code;
class GpuDevice;

// What kernels report, in a stream's word for it.
enum class Refused : uint32_t { nothing, keys_beyond_cache };

// A stream has one. Calls of its thread may meet those of threads that wait for its events.
class Staging {
 public:
  static constexpr size_t kMostBytes = size_t{32} << 10;  // of a copy

  explicit Staging(const GpuDevice& device) : device_(device) { blocks_.reserve(kMostBlocks); }
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  enum class Way : uint8_t { to_device, to_host, on_device };
  // Adds a copy of at most kMostBytes. Data of the host is read at once; what the host receives is
  // there after passed().
  void copy(StreamHandle stream, void* to, const void* from, size_t bytes, Way way);
  // Before a copy that is not added: waits if memory of the host on either side is still expected.
  void settle(StreamHandle stream, const void* to, const void* from, size_t bytes);
  // Enqueues what was added; after an error, the next call tries again.
  void flush(StreamHandle stream);
  // All that was added so far.
  int64_t mark() const;
  // The stream has passed `mark`: hands over what it brought, and fails if a kernel reports values
  // that its op refuses.
  void passed(int64_t mark);
  // Where kernels report them: a word of pinned memory, as they see it, which is 0 until then.
  void* report();
  // What the stream did not bring is no longer expected.
  void drop();

 private:
  struct Block {
    void* to;
    const void* from;
    int64_t bytes;
  };
  struct Arrival {
    int64_t mark;
    void* to;
    const void* from;
    size_t bytes;
  };
  static constexpr int64_t kBytes = int64_t{256} << 10;  // of the ring
  static constexpr size_t kMostBlocks = 32;              // of a launch

  std::byte* take(StreamHandle stream, size_t bytes);
  bool conflicts(const void* to, const void* from, size_t bytes) const;
  void flush_blocks(StreamHandle stream);
  void wait(StreamHandle stream);
  void arrive(int64_t mark);

  const GpuDevice& device_;
  mutable std::mutex mutex_;
  std::byte* ring_ = nullptr;    // pinned
  std::byte* report_ = nullptr;  // pinned
  int64_t taken_ = 0;            // bytes of the ring, of all its rounds
  int64_t passed_ = 0;           // of these, free again
  std::vector<Block> blocks_;    // not enqueued
  std::vector<Arrival> arrivals_;
  std::shared_ptr<const Code> code_;
};

}  // namespace lathe::gpu

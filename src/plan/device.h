// SPDX-License-Identifier: MIT
// A processor's memory, streams and events. The host is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace lathe {

class Device;
class ThreadPool;

// Reserved addresses: memory grows, addresses stay.
class AddressRange {
 public:
  virtual ~AddressRange() = default;
  virtual void* base() const = 0;
  virtual int64_t bytes() const = 0;  // reserved
  // Commits at least [offset, offset + bytes). OutOfMemory; what was committed stays.
  virtual void commit(int64_t offset, int64_t bytes) = 0;
  // Returns committed memory, as far as the system can; its content becomes undefined.
  virtual void release(int64_t offset, int64_t bytes) noexcept = 0;
};

// A point in a stream.
class Event {
 public:
  virtual ~Event() = default;
  // True once the stream has passed it; true before the first record.
  virtual bool done() const = 0;
  // Waits on the host; throws the stream's first failure.
  virtual void synchronize() = 0;
};

// Work recorded by a stream, for replay.
class Capture {
 public:
  virtual ~Capture() = default;
};

struct BlockCopy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

// Runs launches, copies and fills in order. After a failure, all further work is skipped until
// synchronize() has reported it. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual const Device& device() const = 0;
  // Addresses of the device or of the host. Host memory must stay until the copy has run.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Copies blocks of the host's memory, which nothing reads after the call, to places that do not
  // overlap; the threads of `pool` (null: none) may help. Not captured.
  virtual void upload(std::span<const BlockCopy> blocks, ThreadPool* /*pool*/) {
    for (const BlockCopy& block : blocks) copy(block.to, block.from, block.bytes);
    synchronize();
  }
  // Copies blocks of the device's memory, which do not overlap, in one launch. The list must stay
  // until the copies have run. Not captured.
  virtual void copy_blocks(std::span<const BlockCopy> blocks) = 0;
  virtual void fill(void* to, std::byte value, size_t bytes) = 0;  // on the device
  virtual void record(Event& event) = 0;
  virtual void wait(Event& event) = 0;  // the stream waits, not the host
  // Returns when all work has ended; throws the first failure and clears it.
  virtual void synchronize() = 0;
  // Work enqueued in between is recorded and does not run.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Capture> end_capture() = 0;
  virtual void replay(const Capture& capture) = 0;
  virtual void* native_handle() const { return nullptr; }
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "host", "sim"
  virtual bool host_accessible() const = 0;
  virtual int64_t memory_bytes() const = 0;  // 0: unknown
  // Memory of this device; content is undefined.
  virtual Allocator& allocator() const = 0;
  // OutOfMemory if the address space is exhausted.
  virtual std::unique_ptr<AddressRange> reserve(int64_t bytes) const = 0;
  virtual std::unique_ptr<Stream> make_stream() const = 0;
  virtual std::unique_ptr<Event> make_event() const = 0;
  // About as many bytes will be uploaded soon: what that needs may be made meanwhile.
  virtual void expect_upload(int64_t /*bytes*/) const {}
  // About as many may be allocated; 0: unknown.
  virtual int64_t free_bytes() const { return 0; }
};

// A dense tensor in the device's memory; its content is undefined. OutOfMemory.
Tensor make_tensor(const Device& device, ElementType type, Dims dims);

// The host: work runs at once on the calling thread, so its stream has nothing to wait for.
const Device& host_device();

}  // namespace lathe

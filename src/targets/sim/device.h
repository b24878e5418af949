// SPDX-License-Identifier: MIT
// The simulated device: work runs on the stream's thread after random delays.
#pragma once

#include <functional>
#include <memory>

#include "plan/device.h"
#include "targets/sim/memory.h"

namespace lathe::sim {

// A stream that takes any work.
class SimStream : public Stream {
 public:
  virtual void enqueue(std::function<void()> work) = 0;
};

class SimDevice final : public Device {
 public:
  explicit SimDevice(uint64_t seed) : seed_(seed) {}
  std::string_view name() const override { return "sim"; }
  bool host_accessible() const override { return false; }
  int64_t memory_bytes() const override { return 0; }
  Allocator& allocator() const override { return memory_; }
  std::unique_ptr<AddressRange> reserve(int64_t bytes) const override;
  std::unique_ptr<Stream> make_stream() const override;
  std::unique_ptr<Event> make_event() const override;
  Memory& memory() const { return memory_; }

 private:
  uint64_t seed_;
  mutable Memory memory_;
};

}  // namespace lathe::sim

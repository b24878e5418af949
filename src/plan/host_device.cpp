// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/os_memory.h"
#include "plan/device.h"

namespace lathe {
namespace {

// The system commits a page at its first access.
class HostRange final : public AddressRange {
 public:
  explicit HostRange(int64_t bytes)
      : bytes_(std::max<int64_t>(bytes, 1)), base_(reserve_pages(static_cast<size_t>(bytes_))) {
    check(base_ != nullptr, ErrorKind::out_of_memory, "cannot reserve {} bytes of addresses",
          bytes_);
  }
  ~HostRange() override { release_pages(base_, static_cast<size_t>(bytes_)); }
  HostRange(const HostRange&) = delete;
  HostRange& operator=(const HostRange&) = delete;
  void* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }
  void commit(int64_t offset, int64_t bytes) override {
    check(offset >= 0 && bytes >= 0 && bytes <= bytes_ - offset, ErrorKind::out_of_memory,
          "{} bytes at {} exceed the {} reserved", bytes, offset, bytes_);
  }
  void release(int64_t offset, int64_t bytes) noexcept override {
    discard_pages(static_cast<std::byte*>(base_) + offset, static_cast<size_t>(bytes));
  }

 private:
  int64_t bytes_;
  void* base_;
};

class HostEvent final : public Event {
 public:
  bool done() const override { return true; }
  void synchronize() override {}
};

class HostCapture final : public Capture {};

class HostStream final : public Stream {
 public:
  const Device& device() const override { return host_device(); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_blocks(std::span<const BlockCopy> blocks) override {
    for (const BlockCopy& block : blocks) std::memcpy(block.to, block.from, block.bytes);
  }
  void fill(void* to, std::byte value, size_t bytes) override {
    std::memset(to, std::to_integer<int>(value), bytes);
  }
  void record(Event&) override {}
  void wait(Event& event) override { event.synchronize(); }
  void synchronize() override {}
  void begin_capture() override {
    fail(ErrorKind::unsupported, "the {} does not capture: its work runs at once", "host");
  }
  std::unique_ptr<Capture> end_capture() override { return std::make_unique<HostCapture>(); }
  void replay(const Capture&) override {}
};

class HostDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }
  bool host_accessible() const override { return true; }
  int64_t memory_bytes() const override { return 0; }
  Allocator& allocator() const override { return host_allocator(); }
  std::unique_ptr<AddressRange> reserve(int64_t bytes) const override {
    return std::make_unique<HostRange>(bytes);
  }
  std::unique_ptr<Stream> make_stream() const override { return std::make_unique<HostStream>(); }
  std::unique_ptr<Event> make_event() const override { return std::make_unique<HostEvent>(); }
};

}  // namespace

Tensor make_tensor(const Device& device, ElementType type, Dims dims) {
  const int64_t bytes = std::max<int64_t>(bytes_for(type, element_count(dims)), 1);
  Allocator& memory = device.allocator();
  constexpr size_t kAlignment = 64;
  void* data = memory.allocate(static_cast<size_t>(bytes), kAlignment);
  check(data != nullptr, ErrorKind::out_of_memory, "cannot allocate {} bytes on device '{}'", bytes,
        device.name());
  const std::shared_ptr<void> owner(data, [&memory, bytes](void* pointer) {
    memory.deallocate(pointer, static_cast<size_t>(bytes));
  });
  Dims strides = Tensor::dense_strides(dims);
  return Tensor(type, std::move(dims), std::move(strides), data, owner);
}

const Device& host_device() {
  static const HostDevice device;
  return device;
}

}  // namespace lathe

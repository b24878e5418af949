// SPDX-License-Identifier: MIT
// A GPU as a device of plans: memory, streams, events and captures over a driver.
#pragma once

#include <memory>
#include <mutex>

#include "plan/device.h"
#include "targets/gpu/code/code_store.h"
#include "targets/gpu/driver/driver.h"
#include "targets/gpu/libraries/libraries.h"
#include "targets/gpu/staging.h"
#include "targets/gpu/upload_ring.h"

namespace lathe::gpu {

class GpuStream;

class GpuDevice final : public Device {
 public:
  // `memory_limit`: bytes that may be allocated; 0: all of the device's. `cache`: the folder of
  // compiled code and of libraries' plans; empty: none.
  GpuDevice(std::shared_ptr<Driver> driver, std::string name, int64_t memory_limit,
            const std::string& cache);
  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return false; }
  int64_t memory_bytes() const override { return limit_; }
  Allocator& allocator() const override { return memory_; }
  std::unique_ptr<AddressRange> reserve(int64_t bytes) const override;
  std::unique_ptr<Stream> make_stream() const override;
  std::unique_ptr<Event> make_event() const override;
  void expect_upload(int64_t bytes) const override;
  int64_t free_bytes() const override;

  Driver& driver() const { return *driver_; }
  CodeStore& code() const { return code_; }
  Libraries& libraries() const { return libraries_; }
  PinnedBuffers& pinned() const { return pinned_; }
  // Takes bytes of the limit; OutOfMemory beyond it.
  void require(int64_t bytes) const;
  void give_back(int64_t bytes) const noexcept { used_ -= bytes; }
  int64_t used_bytes() const { return used_; }

 private:
  class Memory final : public Allocator {
   public:
    explicit Memory(const GpuDevice& device) : device_(device) {}
    void* allocate(size_t bytes, size_t alignment) override;
    void deallocate(void* pointer, size_t bytes) noexcept override;

   private:
    const GpuDevice& device_;
  };

  std::shared_ptr<Driver> driver_;
  std::string name_;
  int64_t limit_;
  mutable std::atomic<int64_t> used_{0};
  mutable Memory memory_{*this};
  mutable DiskCache cache_;
  mutable PinnedBuffers pinned_;
  mutable Libraries libraries_;
  mutable CodeStore code_;  // its threads end before the libraries do, for which they work
};

// A stream of such a device: its handle, for kernels.
class GpuStream final : public Stream {
 public:
  explicit GpuStream(const GpuDevice& device);
  ~GpuStream() override;
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  const Device& device() const override { return device_; }
  // The latest work: only launches overlap each other; a product lets them overlap it.
  enum class Latest : uint8_t { other, launch, product };
  Latest latest() const { return latest_; }
  void set_latest(Latest latest) { latest_ = latest; }
  void copy(void* to, const void* from, size_t bytes) override;
  void upload(std::span<const BlockCopy> blocks, ThreadPool* pool) override;
  void copy_blocks(std::span<const BlockCopy> blocks) override;
  void fill(void* to, std::byte value, size_t bytes) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void begin_capture() override;
  std::unique_ptr<Capture> end_capture() override;
  void replay(const Capture& capture) override;
  void* native_handle() const override;
  // For what comes after all work so far.
  StreamHandle handle() const {
    staging_->flush(handle_);
    return handle_;
  }
  // For work of others, as that of libraries.
  StreamHandle handle_for_other() {
    latest_ = Latest::other;
    return handle();
  }
  // `count` elements that are 0 between launches: a launch that changes them clears them. At most
  // as many as the first call requests, which no capture records.
  void* counters(int64_t count);
  // Where a kernel reports values that its op refuses: a word of `Refused`.
  void* report() { return staging_->report(); }

 private:
  const GpuDevice& device_;
  StreamHandle handle_;
  std::shared_ptr<Staging> staging_;  // also of its events
  std::unique_ptr<UploadRing> uploads_;
  bool capturing_ = false;
  Tensor counters_;
  Tensor blocks_;  // the list of copy_blocks(), on the device
  Latest latest_ = Latest::other;
};

}  // namespace lathe::gpu

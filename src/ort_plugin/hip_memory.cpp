// SPDX-License-Identifier: MIT
#include "ort_plugin/hip_memory.h"

#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/object_pool.h"
#include "base/os_environment.h"
#include "targets/gpu_library.h"

namespace lathe::ort_plugin {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr uint32_t kAmd = 0x1002;  // PCI vendor

struct HipAllocator : OrtAllocator {
  explicit HipAllocator(const OrtMemoryInfo* of) : OrtAllocator{}, info(of) {
    version = kApiVersion;
    Alloc = [](OrtAllocator* allocator, size_t bytes) noexcept {
      return static_cast<HipAllocator*>(allocator)->allocate(bytes);
    };
    Reserve = Alloc;
    Free = [](OrtAllocator* allocator, void* memory) noexcept {
      static_cast<HipAllocator*>(allocator)->free(memory);
    };
    Info = [](const OrtAllocator* allocator) noexcept {
      return static_cast<const HipAllocator*>(allocator)->info;
    };
  }
  virtual ~HipAllocator() = default;
  HipAllocator(const HipAllocator&) = delete;
  HipAllocator& operator=(const HipAllocator&) = delete;
  virtual void* allocate(size_t bytes) noexcept = 0;
  virtual void free(void* memory) noexcept = 0;
  const OrtMemoryInfo* info;
};

struct HostAllocator final : HipAllocator {
  using HipAllocator::HipAllocator;
  void* allocate(size_t bytes) noexcept override {
    return operator new(bytes, kAlignment, std::nothrow);
  }
  void free(void* memory) noexcept override { operator delete(memory, kAlignment); }
};

// ONNX Runtime allocates the results of every run: freed blocks serve requests of their size again.
class DeviceAllocator final : public HipAllocator {
 public:
  DeviceAllocator(const OrtMemoryInfo* of, const Device& device)
      : HipAllocator(of), memory_(device.allocator()) {}
  ~DeviceAllocator() override {
    drop_idle();
    for (const auto& [memory, bytes] : used_) memory_.deallocate(memory, bytes);
  }
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  void* allocate(size_t bytes) noexcept override {
    const std::scoped_lock lock(mutex_);
    try {
      void* memory = take(bytes);
      used_.emplace(memory, bytes);
      return memory;
    } catch (const std::exception&) {
      return nullptr;  // the host reports it
    }
  }
  void free(void* memory) noexcept override {
    const std::scoped_lock lock(mutex_);
    const auto at = used_.find(memory);
    if (at == used_.end()) return;
    const size_t bytes = at->second;
    used_.erase(at);
    try {
      idle_.emplace(bytes, memory);
    } catch (const std::exception&) {
      memory_.deallocate(memory, bytes);
    }
    if (idle_.size() > kMostIdle) drop_idle();
  }

 private:
  static constexpr size_t kMostIdle = 256;

  void* take(size_t bytes) {
    if (const auto at = idle_.find(bytes); at != idle_.end()) {
      void* memory = at->second;
      idle_.erase(at);
      return memory;
    }
    try {
      return memory_.allocate(bytes, static_cast<size_t>(kAlignment));
    } catch (const Error&) {
      if (idle_.empty()) throw;
    }
    drop_idle();
    return memory_.allocate(bytes, static_cast<size_t>(kAlignment));
  }
  void drop_idle() noexcept {
    for (const auto& [bytes, memory] : idle_) memory_.deallocate(memory, bytes);
    idle_.clear();
  }

  Allocator& memory_;
  std::mutex mutex_;
  std::unordered_map<void*, size_t> used_;
  std::unordered_multimap<size_t, void*> idle_;
};

bool is_of_host(const Host& host, const OrtMemoryInfo* info) {
  return host->MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

bool is_known(const Host& host, const OrtMemoryDevice* memory) {
  return host.ep().MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU ||
         host.ep().MemoryDevice_GetVendorId(memory) == kAmd;
}

struct Transfer : OrtDataTransferImpl {
  Transfer(const Host& of, const Device* at) : OrtDataTransferImpl{}, host(of), device(at) {
    ort_version_supported = kApiVersion;
    Release = [](OrtDataTransferImpl* transfer) noexcept {
      delete static_cast<Transfer*>(transfer);
    };
    CanCopy = [](const OrtDataTransferImpl* transfer, const OrtMemoryDevice* from,
                 const OrtMemoryDevice* to) noexcept {
      const Host& api = static_cast<const Transfer*>(transfer)->host;
      return is_known(api, from) && is_known(api, to);
    };
    CopyTensors = [](OrtDataTransferImpl* transfer, const OrtValue** from, OrtValue** to,
                     OrtSyncStream** /*streams*/, size_t count) noexcept {
      const auto& me = *static_cast<Transfer*>(transfer);
      return me.host.guarded([&] { me.copy(from, to, count); });
    };
  }

  void copy(const OrtValue** from, OrtValue** to, size_t count) const {
    std::unique_ptr<Stream> stream;
    for (size_t i = 0; i < count; ++i) {
      size_t bytes = 0;
      host.check(host->GetTensorSizeInBytes(from[i], &bytes));
      const void* source = nullptr;
      void* target = nullptr;
      host.check(host->GetTensorData(from[i], &source));
      host.check(host->GetTensorMutableData(to[i], &target));
      if (bytes == 0 || source == target) continue;
      if (device == nullptr || !(lies_on_device(host, *from[i]) || lies_on_device(host, *to[i]))) {
        std::memcpy(target, source, bytes);
        continue;
      }
      if (stream == nullptr) stream = streams.acquire();
      if (stream == nullptr) stream = device->make_stream();
      stream->copy(target, source, bytes);
    }
    if (stream == nullptr) return;
    stream->synchronize();
    streams.release(std::move(stream));
  }

  const Host& host;
  const Device* device;  // null: the host
  mutable ObjectPool<Stream> streams;
};

}  // namespace

std::shared_ptr<const Target> find_memory_target() {
  const std::string name = environment_variable("LATHE_TARGET").value_or("gpu");
  return is_gpu_target(name) ? find_gpu_target(name, nullptr) : nullptr;
}

bool lies_on_device(const Host& host, const OrtValue& value) {
  const OrtMemoryInfo* info = nullptr;
  host.check(host->GetTensorMemoryInfo(&value, &info));
  OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
  host->MemoryInfoGetDeviceType(info, &type);
  return type == OrtMemoryInfoDeviceType_GPU && !is_of_host(host, info);
}

HipMemory::HipMemory(const Host& host, std::shared_ptr<const Target> target)
    : host_(host), target_(std::move(target)) {
  // GenAI's request states no alignment, and devices with different ones are not equal.
  host.check(host->CreateMemoryInfo_V2("Hip", OrtMemoryInfoDeviceType_GPU, kAmd, 0,
                                       OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &info_));
  if (device() == nullptr) return;
  host.check(host->CreateMemoryInfo_V2("HipHost", OrtMemoryInfoDeviceType_GPU, kAmd, 0,
                                       OrtDeviceMemoryType_HOST_ACCESSIBLE, 0, OrtDeviceAllocator,
                                       &host_info_));
}

HipMemory::~HipMemory() {
  host_->ReleaseMemoryInfo(info_);
  if (host_info_ != nullptr) host_->ReleaseMemoryInfo(host_info_);
}

OrtAllocator* HipMemory::make_allocator(const OrtMemoryInfo* info) const {
  if (device() != nullptr && !is_of_host(host_, info)) return new DeviceAllocator(info, *device());
  return new HostAllocator(info);
}

void HipMemory::release(OrtAllocator* allocator) { delete static_cast<HipAllocator*>(allocator); }

OrtDataTransferImpl* HipMemory::make_transfer() const { return new Transfer(host_, device()); }

}  // namespace lathe::ort_plugin

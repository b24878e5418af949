// SPDX-License-Identifier: MIT
#include "ort_plugin/hip_memory.h"

#include <cstring>
#include <new>

namespace lathe::ort_plugin {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr uint32_t kAmd = 0x1002;  // PCI vendor

struct HostAllocator : OrtAllocator {
  explicit HostAllocator(const OrtMemoryInfo* of) : OrtAllocator{}, info(of) {
    version = kApiVersion;
    Alloc = [](OrtAllocator* /*allocator*/, size_t bytes) noexcept -> void* {
      return operator new(bytes, kAlignment, std::nothrow);
    };
    Reserve = Alloc;
    Free = [](OrtAllocator* /*allocator*/, void* memory) noexcept {
      operator delete(memory, kAlignment);
    };
    Info = [](const OrtAllocator* allocator) noexcept {
      return static_cast<const HostAllocator*>(allocator)->info;
    };
  }
  const OrtMemoryInfo* info;
};

struct Transfer : OrtDataTransferImpl {
  explicit Transfer(const Host& of) : OrtDataTransferImpl{}, host(of) {
    ort_version_supported = kApiVersion;
    Release = [](OrtDataTransferImpl* transfer) noexcept {
      delete static_cast<Transfer*>(transfer);
    };
    CanCopy = [](const OrtDataTransferImpl* /*transfer*/, const OrtMemoryDevice* /*from*/,
                 const OrtMemoryDevice* /*to*/) noexcept { return true; };
    CopyTensors = [](OrtDataTransferImpl* transfer, const OrtValue** from, OrtValue** to,
                     OrtSyncStream** /*streams*/, size_t count) noexcept {
      const Host& api = static_cast<Transfer*>(transfer)->host;
      return api.guarded([&] {
        for (size_t i = 0; i < count; ++i) copy(api, *from[i], *to[i]);
      });
    };
  }

  static void copy(const Host& api, const OrtValue& from, OrtValue& to) {
    size_t bytes = 0;
    api.check(api->GetTensorSizeInBytes(&from, &bytes));
    const void* source = nullptr;
    void* target = nullptr;
    api.check(api->GetTensorData(&from, &source));
    api.check(api->GetTensorMutableData(&to, &target));
    if (bytes > 0 && source != target) std::memcpy(target, source, bytes);
  }

  const Host& host;
};

}  // namespace

HipMemory::HipMemory(const Host& host) : host_(host) {
  // GenAI's request states no alignment, and devices with different ones are not equal.
  host.check(host->CreateMemoryInfo_V2("Hip", OrtMemoryInfoDeviceType_GPU, kAmd, 0,
                                       OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &info_));
}

HipMemory::~HipMemory() { host_->ReleaseMemoryInfo(info_); }

OrtAllocator* HipMemory::make_allocator(const OrtMemoryInfo* info) const {
  return new HostAllocator(info);
}

void HipMemory::release(OrtAllocator* allocator) { delete static_cast<HostAllocator*>(allocator); }

OrtDataTransferImpl* HipMemory::make_transfer() const { return new Transfer(host_); }

}  // namespace lathe::ort_plugin

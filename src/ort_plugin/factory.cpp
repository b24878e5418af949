// SPDX-License-Identifier: MIT
#include "ort_plugin/factory.h"

#include "llm/config/providers.h"
#include "ort_plugin/ep.h"

namespace lathe::ort_plugin {
namespace {

constexpr std::string_view kAmdGpu = "AMDGPU";

const Factory& self(const OrtEpFactory* factory) { return *static_cast<const Factory*>(factory); }

bool is_stand_in(const llm::Provider* provider) {
  return provider != nullptr && provider->plugin && provider->name != "lathe";
}

}  // namespace

std::vector<std::string> ep_names(std::string_view registered) {
  if (is_stand_in(llm::find_provider(registered))) return {std::string(registered)};
  return {"LatheExecutionProvider", "lathe"};
}

Factory::Factory(std::shared_ptr<const Host> host, std::string name)
    : OrtEpFactory{}, host_(std::move(host)), name_(std::move(name)) {
  const llm::Provider* provider = llm::find_provider(name_);
  if (provider != nullptr && provider->name == kAmdGpu) {
    hip_ = std::make_unique<HipMemory>(*host_, find_memory_target());
  }
  ort_version_supported = kApiVersion;
  GetName = [](const OrtEpFactory* factory) noexcept -> const char* {
    return static_cast<const Factory*>(factory)->name_.c_str();
  };
  GetVendor = [](const OrtEpFactory* /*factory*/) noexcept -> const char* { return "Lathe"; };
  GetVendorId = [](const OrtEpFactory* /*factory*/) noexcept -> uint32_t { return 0; };
  GetVersion = [](const OrtEpFactory* /*factory*/) noexcept -> const char* {
    return LATHE_VERSION;
  };
  GetSupportedDevices = [](OrtEpFactory* factory, const OrtHardwareDevice* const* devices,
                           size_t count, OrtEpDevice** out, size_t room, size_t* added) noexcept {
    auto& me = *static_cast<Factory*>(factory);
    return me.host().guarded([&] { me.add_devices(devices, count, out, room, *added); });
  };
  CreateEp = [](OrtEpFactory* factory, const OrtHardwareDevice* const* /*devices*/,
                const OrtKeyValuePairs* const* /*metadata*/, size_t /*count*/,
                const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** ep) noexcept {
    auto& me = *static_cast<Factory*>(factory);
    return me.host().guarded([&] {
      *ep = me.create(*options, logger);
      me.retain();
    });
  };
  ReleaseEp = [](OrtEpFactory* factory, OrtEp* ep) noexcept {
    delete static_cast<Ep*>(ep);
    static_cast<Factory*>(factory)->release();
  };
  ValidateCompiledModelCompatibilityInfo =
      [](OrtEpFactory* /*factory*/, const OrtHardwareDevice* const* /*devices*/, size_t /*count*/,
         const char* info, OrtCompiledModelCompatibility* found) noexcept -> OrtStatus* {
    *found = verdict(info == nullptr ? "" : info);
    return nullptr;
  };
  CreateAllocator = [](OrtEpFactory* factory, const OrtMemoryInfo* info,
                       const OrtKeyValuePairs* /*options*/,
                       OrtAllocator** allocator) noexcept -> OrtStatus* {
    const auto& hip = static_cast<const Factory*>(factory)->hip_;
    return self(factory).host().guarded(
        [&] { *allocator = hip == nullptr ? nullptr : hip->make_allocator(info); });
  };
  ReleaseAllocator = [](OrtEpFactory* /*factory*/, OrtAllocator* allocator) noexcept {
    HipMemory::release(allocator);
  };
  CreateDataTransfer = [](OrtEpFactory* factory,
                          OrtDataTransferImpl** transfer) noexcept -> OrtStatus* {
    const auto& hip = static_cast<const Factory*>(factory)->hip_;
    return self(factory).host().guarded(
        [&] { *transfer = hip == nullptr ? nullptr : hip->make_transfer(); });
  };
  IsStreamAware = [](const OrtEpFactory* /*factory*/) noexcept { return false; };
  CreateSyncStreamForDevice = [](OrtEpFactory* /*factory*/, const OrtMemoryDevice* /*device*/,
                                 const OrtKeyValuePairs* /*options*/,
                                 OrtSyncStreamImpl** stream) noexcept -> OrtStatus* {
    *stream = nullptr;
    return nullptr;
  };
}

void Factory::add_devices(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** out,
                          size_t room, size_t& added) {
  added = 0;
  for (size_t i = 0; i < count && added < room; ++i) {
    if ((*host_)->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    OrtEpDevice* device = nullptr;
    host_->check(host_->ep().CreateEpDevice(this, devices[i], nullptr, nullptr, &device));
    if (hip_ != nullptr) {
      host_->check(host_->ep().EpDevice_AddAllocatorInfo(device, hip_->info()));
      if (hip_->host_info() != nullptr) {
        host_->check(host_->ep().EpDevice_AddAllocatorInfo(device, hip_->host_info()));
      }
    }
    out[added++] = device;
  }
}

OrtEp* Factory::create(const OrtSessionOptions& options, const OrtLogger* logger) const {
  OrtKeyValuePairs* pairs = nullptr;
  host_->check((*host_)->GetSessionOptionsConfigEntries(&options, &pairs));
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  (*host_)->GetKeyValuePairs(pairs, &keys, &values, &count);
  Entries entries;
  for (size_t i = 0; i < count; ++i) entries.emplace_back(keys[i], values[i]);
  (*host_)->ReleaseKeyValuePairs(pairs);
  return new Ep(*host_, name_, entries, logger, hip_ == nullptr ? nullptr : hip_->target());
}

}  // namespace lathe::ort_plugin

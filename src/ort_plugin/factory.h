// SPDX-License-Identifier: MIT
// Makes the execution providers of one name for one host.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ort_plugin/hip_memory.h"
#include "ort_plugin/host.h"

namespace lathe::ort_plugin {

// The names of the EPs that a library registered as `registered` offers: that name if it is one of
// an EP whose place Lathe takes (MIGraphX, ROCm, AMDGPU), else Lathe's own two.
std::vector<std::string> ep_names(std::string_view registered);

class Factory final : public OrtEpFactory {
 public:
  Factory(std::shared_ptr<const Host> host, std::string name);
  const Host& host() const { return *host_; }

  // Sessions may outlive the registration: the last of both deletes the factory.
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~Factory() = default;
  void add_devices(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** out,
                   size_t room, size_t& added);
  OrtEp* create(const OrtSessionOptions& options, const OrtLogger* logger) const;

  std::shared_ptr<const Host> host_;
  std::string name_;
  std::atomic<int> references_{1};
  std::unique_ptr<HipMemory> hip_;  // null: tensors lie in ONNX Runtime's own memory
};

}  // namespace lathe::ort_plugin

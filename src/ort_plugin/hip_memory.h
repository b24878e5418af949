// SPDX-License-Identifier: MIT
// Memory with the name that ONNX Runtime GenAI expects of AMD's execution provider: that of a GPU,
// where there is one, else the host's. Models whose configuration names that provider run without
// changes.
#pragma once

#include "ort_plugin/host.h"
#include "plan/device.h"
#include "targets/target.h"

namespace lathe::ort_plugin {

// The target in whose device's memory a registration under AMD's name keeps values: that of
// LATHE_TARGET, "gpu" without it. Null: none is present, and values lie in host memory.
std::shared_ptr<const Target> find_memory_target();

// True for a tensor in memory with that name.
bool lies_on_device(const Host& host, const OrtValue& value);

class HipMemory {
 public:
  // `target`: its device has the memory; null: the host.
  HipMemory(const Host& host, std::shared_ptr<const Target> target);
  ~HipMemory();
  HipMemory(const HipMemory&) = delete;
  HipMemory& operator=(const HipMemory&) = delete;

  const OrtMemoryInfo* info() const { return info_; }
  // Memory of the host for what the host writes in each step; null: it is that of info().
  const OrtMemoryInfo* host_info() const { return host_info_; }
  const Target* target() const { return target_.get(); }
  // Null: the host.
  const Device* device() const { return target_ == nullptr ? nullptr : target_->device(); }
  // The host releases both.
  OrtAllocator* make_allocator(const OrtMemoryInfo* info) const;
  static void release(OrtAllocator* allocator);
  OrtDataTransferImpl* make_transfer() const;

 private:
  const Host& host_;
  std::shared_ptr<const Target> target_;
  OrtMemoryInfo* info_ = nullptr;
  OrtMemoryInfo* host_info_ = nullptr;
};

}  // namespace lathe::ort_plugin

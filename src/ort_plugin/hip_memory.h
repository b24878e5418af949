// SPDX-License-Identifier: MIT
// Memory with the name that ONNX Runtime GenAI expects of AMD's execution provider. It is the
// host's: models whose configuration names that provider run without changes.
#pragma once

#include "ort_plugin/host.h"

namespace lathe::ort_plugin {

class HipMemory {
 public:
  explicit HipMemory(const Host& host);
  ~HipMemory();
  HipMemory(const HipMemory&) = delete;
  HipMemory& operator=(const HipMemory&) = delete;

  const OrtMemoryInfo* info() const { return info_; }
  // The host releases both.
  OrtAllocator* make_allocator(const OrtMemoryInfo* info) const;
  static void release(OrtAllocator* allocator);
  OrtDataTransferImpl* make_transfer() const;

 private:
  const Host& host_;
  OrtMemoryInfo* info_ = nullptr;
};

}  // namespace lathe::ort_plugin

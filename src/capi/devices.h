// SPDX-License-Identifier: MIT
// Devices, their tensors and streams.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "capi/handles.h"
#include "plan/device.h"

// Lives as long as the process.
struct lathe_device {
  std::string name;
  const lathe::Device* device;  // the host's for "cpu"
  bool on_host;
};

struct lathe_stream {
  const lathe_device* device = nullptr;
  std::mutex mutex{};  // a stream serves one thread at a time
  std::unique_ptr<lathe::Stream> stream{};
  std::vector<lathe::Box> held{};  // tensors of copies that may not have run
};

namespace lathe::capi {

// The handle of a plan's device; null: the host.
const lathe_device* device_of(const Device* device);
// A device as DLPack names it.
struct DlpackDevice {
  int32_t type;
  int32_t id;
};
DlpackDevice dlpack_device_of(const lathe_device& device);
// Null if there is none.
const lathe_device* find_dlpack_device(DlpackDevice device);
// Null for NULL and for the host.
const lathe_device* off_host(const lathe_device* device);
// The tensor's box. InvalidArgument, naming `what`, the device and the remedy, unless the host can
// read it.
const Box& host_box(const lathe_tensor* tensor, std::string_view what);
// A dense tensor in the device's memory; its content is undefined.
Tensor make_on(const lathe_device& device, ElementType type, Dims dims);
// Copies a dense tensor and waits for the end.
void copy_now(const Tensor& from, const lathe_device* from_device, const Tensor& to,
              const lathe_device* to_device);

}  // namespace lathe::capi

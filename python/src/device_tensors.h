// SPDX-License-Identifier: MIT
// Tensors in the memory of a device, which NumPy cannot share.
#pragma once

#include <memory>

#include "core.h"

namespace lathe_python {

struct DeviceTensor {
  Handle<lathe_tensor> handle;
  bool read_only = false;  // shared by a DLPack producer that forbids writes
  // Follows what its DLPack producer has enqueued: its end is awaited at the first use.
  std::shared_ptr<lathe_stream> producer{};
};

// The device of a name; raises for an unknown or absent one.
const lathe_device* find_device(const std::string& name);
bool has_device(const std::string& name);

// Null for an object that is none. Waits for the tensor's producer.
const DeviceTensor* device_tensor_of(PyObject* object);

// A value as a result on a device, copied there if it lies elsewhere; null: on the host, an array.
nb::object result_on(Handle<lathe_tensor> tensor, const lathe_device* device);

// A DeviceTensor, or an array of a tensor on the host.
nb::object shared_result(Handle<lathe_tensor> tensor);

}  // namespace lathe_python

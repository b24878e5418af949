// SPDX-License-Identifier: MIT
#include "device_tensors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"

namespace lathe_python {
namespace {

Handle<lathe_tensor> copy_to(const lathe_tensor* tensor, const lathe_device* device) {
  lathe_tensor* copy = nullptr;
  unlocked([&] { return api->tensor_copy_to(tensor, device, &copy); });
  return own(copy);
}

// The tensor, written by its producer.
const lathe_tensor* ready(DeviceTensor& self) {
  if (const std::shared_ptr<lathe_stream> producer = self.producer) {
    unlocked([&] { return api->stream_synchronize(producer.get()); });
    self.producer.reset();
  }
  return self.handle.get();
}

nb::object of(Handle<lathe_tensor> tensor) {
  return nb::cast(DeviceTensor{.handle = std::move(tensor)}, nb::rv_policy::move);
}

// A copy of an array, or of a tensor on a device.
nb::object on_device(nb::handle value, const std::string& device) {
  const lathe_device* place = find_device(device);
  if (const DeviceTensor* given = device_tensor_of(value.ptr())) {
    return of(copy_to(given->handle.get(), place));
  }
  return of(copy_to(to_value(value, nullptr).get(), place));
}

nb::object zeros_on_device(const std::string& device, lathe_element_type type,
                           const std::vector<int64_t>& shape) {
  lathe_tensor* made = nullptr;
  check(api->tensor_create_on(find_device(device), type, shape.data(),
                              static_cast<int>(shape.size()), &made));
  return of(own(made));
}

// Over memory of the caller, who keeps it.
nb::object at_address(const std::string& device, lathe_element_type type,
                      const std::vector<int64_t>& shape, uintptr_t address) {
  lathe_tensor* made = nullptr;
  check(api->tensor_wrap_on(find_device(device), type, shape.data(), static_cast<int>(shape.size()),
                            reinterpret_cast<void*>(address), nullptr, nullptr, &made));
  return of(own(made));
}

std::string device_name(const DeviceTensor& self) {
  auto info = init<lathe_device_info>();
  check(api->device_info(api->tensor_device(self.handle.get()), &info));
  return info.name;
}

nb::tuple shape(const DeviceTensor& self) {
  nb::list out;
  const int64_t* dims = api->tensor_dims(self.handle.get());
  for (int i = 0; i < api->tensor_rank(self.handle.get()); ++i) out.append(dims[i]);
  return nb::tuple(out);
}

void assign(DeviceTensor& self, nb::handle value) {
  if (self.read_only) raise(LATHE_INVALID_ARGUMENT, "the tensor is read-only, it is not written");
  const DeviceTensor* given = device_tensor_of(value.ptr());
  const Handle<lathe_tensor> array =
      given != nullptr ? Handle<lathe_tensor>() : to_value(value, nullptr);
  const lathe_tensor* from = given != nullptr ? given->handle.get() : array.get();
  lathe_tensor* to = self.handle.get();
  ready(self);
  unlocked([&] { return api->tensor_copy(from, to, nullptr); });
}

}  // namespace

const lathe_device* find_device(const std::string& name) {
  const lathe_device* device = nullptr;
  check(api->device_find(name.c_str(), &device));
  return device;
}

bool has_device(const std::string& name) {
  const lathe_device* device = nullptr;
  lathe_error* error = api->device_find(name.c_str(), &device);
  api->error_free(error);
  return device != nullptr;
}

const DeviceTensor* device_tensor_of(PyObject* object) {
  if (!nb::isinstance<DeviceTensor>(object)) return nullptr;
  auto* tensor = nb::inst_ptr<DeviceTensor>(object);
  ready(*tensor);
  return tensor;
}

nb::object shared_result(Handle<lathe_tensor> tensor) {
  const bool on_host = api->tensor_kind(tensor.get()) != LATHE_VALUE_TENSOR ||
                       api->tensor_device(tensor.get()) == api->device_at(0);
  return on_host ? from_value(std::move(tensor)) : of(std::move(tensor));
}

nb::object result_on(Handle<lathe_tensor> tensor, const lathe_device* device) {
  const bool is_tensor = api->tensor_kind(tensor.get()) == LATHE_VALUE_TENSOR;
  const lathe_device* wanted = device != nullptr ? device : api->device_at(0);
  if (is_tensor && api->tensor_device(tensor.get()) != wanted) {
    tensor = copy_to(tensor.get(), wanted);
  }
  return shared_result(std::move(tensor));
}

void add_device_tensors(nb::module_& module) {
  module.def("has_device", has_device, nb::arg("name"));
  nb::class_<DeviceTensor>(module, "DeviceTensor")
      .def("device", device_name)
      .def("element_type",
           [](const DeviceTensor& self) { return api->tensor_type(self.handle.get()); })
      .def("shape", shape)
      .def("address",
           [](const DeviceTensor& self) {
             return reinterpret_cast<uintptr_t>(api->tensor_data(self.handle.get()));
           })
      .def("bytes", [](const DeviceTensor& self) { return api->tensor_bytes(self.handle.get()); })
      .def("numpy", [](DeviceTensor& self) { return from_value(copy_to(ready(self), nullptr)); })
      .def("assign", assign, nb::arg("value"));
  module.def("on_device", on_device, nb::arg("value"), nb::arg("device"));
  module.def("zeros_on_device", zeros_on_device, nb::arg("device"), nb::arg("element_type"),
             nb::arg("shape"));
  module.def("at_address", at_address, nb::arg("device"), nb::arg("element_type"), nb::arg("shape"),
             nb::arg("address"));
}

}  // namespace lathe_python

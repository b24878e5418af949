// SPDX-License-Identifier: MIT
// DLPack capsules: tensors of other libraries without a copy, bf16 and fp8 included.

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <memory>

#include "arrays.h"
#include "device_tensors.h"
#include "numpy_api.h"

namespace lathe_python {
namespace {

// The structs of DLPack 0 and 1 as far as a consumer reads them; DLTensor has 48 bytes.
struct Managed {
  unsigned char tensor[48];
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  unsigned char tensor[48];
};
constexpr uint64_t kReadOnly = 1;
constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

template <class T>
const char* name_of();
template <>
const char* name_of<Managed>() {
  return kName;
}
template <>
const char* name_of<ManagedVersioned>() {
  return kVersionedName;
}

// The deleter takes a pointer to the producer's declaration of the struct.
template <class T>
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
void release(T* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

// The destructor of Lathe's capsules, and of no others.
template <class T>
void delete_managed(PyObject* capsule) {
  const char* name = name_of<T>();
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // a consumer has renamed it
  auto* managed = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  release(managed);
}

void* export_tensor(nb::handle array, bool versioned) {
  void* managed = nullptr;
  if (const DeviceTensor* tensor = device_tensor_of(array.ptr())) {
    check(api->tensor_to_dlpack(tensor->handle.get(), versioned ? 1 : 0, &managed));
  } else {
    check(api->tensor_to_dlpack(to_value(array, nullptr).get(), versioned ? 1 : 0, &managed));
  }
  return managed;
}

// A capsule of the memory of an array or of a tensor on a device.
nb::object to_dlpack(nb::handle array, bool versioned) {
  const DeviceTensor* tensor = device_tensor_of(array.ptr());
  const bool read_only = tensor != nullptr && tensor->read_only;
  if (read_only && !versioned) {
    raise(
        LATHE_INVALID_ARGUMENT,
        "the tensor is read-only, which DLPack states from version 1 on: pass max_version=(1, 0)");
  }
  void* managed = export_tensor(array, versioned);
  if (read_only) static_cast<ManagedVersioned*>(managed)->flags |= kReadOnly;
  PyObject* capsule =
      PyCapsule_New(managed, versioned ? kVersionedName : kName,
                    versioned ? delete_managed<ManagedVersioned> : delete_managed<Managed>);
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

std::array<int32_t, 2> device_in(const unsigned char* tensor) {
  std::array<int32_t, 2> device{};  // behind the address
  std::memcpy(device.data(), tensor + sizeof(void*), sizeof device);
  return device;
}

// DLPack's type and number of the device of a tensor's memory.
nb::tuple dlpack_device(nb::handle array) {
  auto* managed = static_cast<Managed*>(export_tensor(array, false));
  const auto [type, id] = device_in(managed->tensor);
  release(managed);
  return nb::make_tuple(type, id);
}

// A stream of a device, whose work follows what a producer has enqueued; null where the device has
// no handle of it.
std::shared_ptr<lathe_stream> stream_of(const std::string& device) {
  lathe_stream* made = nullptr;
  check(api->stream_create(find_device(device), &made));
  std::shared_ptr<lathe_stream> stream(made, api->stream_free);
  return api->stream_native(made) == nullptr ? nullptr : stream;
}

// `stream`: null for a producer without one.
nb::object capsule_of(nb::handle object, const lathe_stream* stream) {
  if (PyCapsule_CheckExact(object.ptr())) return nb::borrow(object);
  nb::dict arguments;
  if (stream != nullptr) {
    arguments["stream"] = reinterpret_cast<uintptr_t>(api->stream_native(stream));
  }
  const nb::object method = nb::getattr(object, "__dlpack__");
  nb::dict newest(nb::steal<nb::dict>(PyDict_Copy(arguments.ptr())));
  newest["max_version"] = nb::make_tuple(1, 0);
  try {
    return method(**newest);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // an older producer
  }
  return method(**arguments);
}

// Devices outside of DLPack's list; every library numbers its own.
constexpr int32_t kExtension = 12;

[[noreturn]] void refuse_device(int64_t type, int64_t id) {
  raise(LATHE_INVALID_ARGUMENT,
        "the tensor is on the DLPack device (" + std::to_string(type) + ", " + std::to_string(id) +
            "), which Lathe does not find: copy it to the host",
        "type");
}

// The device of an object in a GPU's memory, "" for others. Refuses one in the memory of no device
// of Lathe's, before it makes a capsule.
std::string check_device(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack_device__")) return "";
  constexpr int64_t kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11,
                    kCudaManaged = 13;
  const nb::object device = object.attr("__dlpack_device__")();
  int64_t type = 0, id = 0;
  if (!nb::isinstance<nb::tuple>(device) || nb::len(device) != 2 ||
      !nb::try_cast(device[0], type) || !nb::try_cast(device[1], id)) {
    raise(LATHE_INVALID_ARGUMENT, "__dlpack_device__ returned no pair of device type and number",
          "type");
  }
  if (type == kCuda || type == kRocm) {
    std::string name = (type == kCuda ? "cuda:" : "hip:") + std::to_string(id);
    if (has_device(name)) return name;
  } else if (type == kCpu || type == kCudaHost || type == kRocmHost || type == kCudaManaged ||
             type == kExtension) {  // such as "gpu:host"
    return "";
  }
  refuse_device(type, id);
}

// Refuses a capsule of another library in the memory of an extension device.
void check_capsule(PyObject* capsule, const unsigned char* tensor) {
  const PyCapsule_Destructor maker = PyCapsule_GetDestructor(capsule);
  if (maker == delete_managed<Managed> || maker == delete_managed<ManagedVersioned>) return;
  const auto [type, id] = device_in(tensor);
  if (type == kExtension) refuse_device(type, id);
}

// An array over the memory of an object with __dlpack__, or of a capsule. `waits_on`: the device of
// an extension whose stream the object's producer shall follow.
nb::object from_dlpack(nb::handle object, const std::string& waits_on) {
  std::string device = check_device(object);
  if (device.empty()) device = waits_on;
  const std::shared_ptr<lathe_stream> stream = device.empty() ? nullptr : stream_of(device);
  const nb::object capsule = capsule_of(object, stream.get());
  const bool versioned = PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0;
  if (!versioned && PyCapsule_IsValid(capsule.ptr(), kName) == 0) {
    raise(LATHE_INVALID_ARGUMENT, "__dlpack__ returned no unused DLPack capsule", "type");
  }
  void* managed = PyCapsule_GetPointer(capsule.ptr(), versioned ? kVersionedName : kName);
  if (managed == nullptr) throw nb::python_error();
  const bool read_only =
      versioned && (static_cast<const ManagedVersioned*>(managed)->flags & kReadOnly) != 0;
  check_capsule(capsule.ptr(), versioned ? static_cast<ManagedVersioned*>(managed)->tensor
                                         : static_cast<Managed*>(managed)->tensor);
  lathe_tensor* made = nullptr;
  check(api->tensor_from_dlpack(managed, versioned ? 2 : 0, &made));
  Handle<lathe_tensor> tensor = own(made);
  if (PyCapsule_SetName(capsule.ptr(), versioned ? "used_dltensor_versioned" : "used_dltensor") !=
      0) {
    throw nb::python_error();
  }
  nb::object array = shared_result(std::move(tensor));
  if (nb::isinstance<DeviceTensor>(array)) {
    auto* made_here = nb::inst_ptr<DeviceTensor>(array);
    made_here->read_only = read_only;
    made_here->producer = stream;
  } else if (read_only && PyArray_Check(array.ptr())) {
    PyArray_CLEARFLAGS(reinterpret_cast<PyArrayObject*>(array.ptr()), NPY_ARRAY_WRITEABLE);
  }
  return array;
}

}  // namespace

void add_dlpack(nb::module_& module) {
  module.def("to_dlpack", to_dlpack, nb::arg("array"), nb::arg("versioned"));
  module.def("dlpack_device", dlpack_device, nb::arg("array"));
  module.def("from_dlpack", from_dlpack, nb::arg("object"), nb::arg("waits_on") = "");
}

}  // namespace lathe_python

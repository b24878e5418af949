// SPDX-License-Identifier: MIT
#include "arrays.h"

#include <cstring>

#include "element_types.h"
#include "numpy_api.h"

namespace lathe_python {
namespace {

PyArrayObject* as_array(nb::handle object) {
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}

nb::object steal_array(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

// Packs the low `bits` of each byte, first element in the lowest bits.
void pack(const uint8_t* from, int64_t count, int bits, uint8_t* to) {
  const int per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int shift = static_cast<int>(i % per_byte) * bits;
    const int value = (from[i] & mask) << shift;
    uint8_t& byte = to[i / per_byte];
    byte = static_cast<uint8_t>(shift == 0 ? value : byte | value);
  }
}

void unpack(const uint8_t* from, int64_t count, int bits, bool is_signed, uint8_t* to) {
  const int per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  const int sign = 1 << (bits - 1);
  for (int64_t i = 0; i < count; ++i) {
    int value = (from[i / per_byte] >> (i % per_byte * bits)) & mask;
    if (is_signed && (value & sign) != 0) value -= 1 << bits;
    to[i] = static_cast<uint8_t>(value);
  }
}

// UTF-8 of a string element, valid as long as the element; bytes are taken as they are.
lathe_text text_of_element(PyObject* item, size_t index) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(item)) {
    return {PyBytes_AsString(item), static_cast<size_t>(PyBytes_Size(item))};
  }
  if (!PyUnicode_Check(item)) {
    raise(LATHE_INVALID_ARGUMENT,
          "element " + std::to_string(index) + " of an object array is not a string", "type");
  }
  const char* text = PyUnicode_AsUTF8AndSize(item, &size);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

Handle<lathe_tensor> strings_from(nb::handle object) {
  // As objects in row-major order.
  const nb::object array =
      steal_array(PyArray_FROM_OTF(object.ptr(), NPY_OBJECT, NPY_ARRAY_CARRAY_RO));
  PyArrayObject* strings = as_array(array);
  const int rank = PyArray_NDIM(strings);
  int64_t dims[16];
  for (int i = 0; i < rank && i < 16; ++i) dims[i] = PyArray_DIM(strings, i);
  lathe_tensor* made = nullptr;
  check(api->tensor_create(LATHE_STRING, dims, rank, &made));
  Handle<lathe_tensor> tensor = own(made);
  auto** items = static_cast<PyObject**>(PyArray_DATA(strings));
  std::vector<lathe_text> texts(static_cast<size_t>(PyArray_SIZE(strings)));
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = text_of_element(items[i], i);
  check(api->tensor_set_strings(made, texts.data(), texts.size()));
  return tensor;
}

// A tensor over an array's memory, which keeps the array.
Handle<lathe_tensor> wrap(lathe_element_type type, const int64_t* dims, const int64_t* strides,
                          int rank, void* data, nb::object array) {
  lathe_tensor* made = nullptr;
  check(api->tensor_wrap(type, dims, strides, rank, data, release_object, array.ptr(), &made));
  array.release();
  return own(made);
}

// Bounds the depth of values that hold values; a list may hold itself.
class Nested {
 public:
  Nested() {
    if (Py_EnterRecursiveCall(" in a value of sequences or maps") != 0) throw nb::python_error();
  }
  ~Nested() { Py_LeaveRecursiveCall(); }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

Handle<lathe_tensor> tensor_from_array(const nb::object& given) {
  const lathe_element_type type = type_of_number(PyArray_TYPE(as_array(given)));
  if (type == LATHE_STRING) return strings_from(given);
  if (type == 0) {
    const nb::object dtype = given.attr("dtype");
    const nb::str name{nb::handle(dtype)};  // of an accessor it would take the dtype for a str
    raise(LATHE_INVALID_ARGUMENT,
          std::string("arrays of dtype ") + name.c_str() + " are not supported", "type");
  }
  const int bits = bits_of(type);
  ArrayView view;
  if (bits >= 8 && view_of(given.ptr(), view)) {
    return wrap(type, view.dims, view.strides, view.rank, view.data, given);
  }
  const nb::object dense = steal_array(PyArray_FromArray(as_array(given), descriptor_of(type),
                                                         NPY_ARRAY_CARRAY | NPY_ARRAY_NOTSWAPPED));
  PyArrayObject* array = as_array(dense);
  int64_t dims[16];
  const int rank = PyArray_NDIM(array);
  for (int i = 0; i < rank && i < 16; ++i) dims[i] = PyArray_DIM(array, i);
  if (bits < 8) {
    lathe_tensor* made = nullptr;
    check(api->tensor_create(type, dims, rank, &made));
    Handle<lathe_tensor> tensor = own(made);
    pack(static_cast<const uint8_t*>(PyArray_DATA(array)), PyArray_SIZE(array), bits,
         static_cast<uint8_t*>(api->tensor_data(made)));
    return tensor;
  }
  return wrap(type, dims, nullptr, rank, PyArray_DATA(array), dense);
}

Handle<lathe_tensor> sequence_from(nb::handle object) {
  const Nested nested;
  std::vector<Handle<lathe_tensor>> items;
  std::vector<lathe_tensor*> handles;
  for (nb::handle item : object) {
    items.push_back(to_value(item, nullptr));
    handles.push_back(items.back().get());
  }
  lathe_tensor* made = nullptr;
  check(api->tensor_sequence(handles.data(), handles.size(), &made));
  return own(made);
}

// A dict of a map, keys in ascending order; tensors of one element become numbers.
nb::object dict_of(lathe_tensor* map, bool packed) {
  lathe_tensor* keys = nullptr;
  lathe_tensor* values = nullptr;
  check(api->tensor_map_items(map, &keys, &values));
  Handle<lathe_tensor> owned_keys = own(keys);
  Handle<lathe_tensor> owned_values = own(values);
  const nb::object names = from_value(std::move(owned_keys)).attr("tolist")();
  const nb::object items = from_value(std::move(owned_values), packed);
  nb::dict out;
  const size_t count = nb::len(names);
  for (size_t i = 0; i < count; ++i) {
    nb::object item = items[i];
    if (PyArray_Check(item.ptr()) && PyArray_SIZE(as_array(item)) == 1) item = item.attr("item")();
    out[names[i]] = item;
  }
  return std::move(out);
}

Handle<lathe_tensor> map_from(nb::handle object) {
  const Nested nested;
  // A copy: a conversion may run code that changes the dict.
  const nb::dict given = nb::steal<nb::dict>(PyDict_Copy(object.ptr()));
  if (!given.is_valid()) throw nb::python_error();
  const nb::object numpy = nb::module_::import_("numpy");
  const Handle<lathe_tensor> keys = to_value(numpy.attr("array")(given.keys()), nullptr);
  std::vector<Handle<lathe_tensor>> items;
  std::vector<lathe_tensor*> handles;
  for (const auto& [key, value] : given) {
    items.push_back(to_value(
        nb::isinstance<nb::float_>(value) ? numpy.attr("float32")(value) : nb::borrow(value),
        nullptr));
    handles.push_back(items.back().get());
  }
  lathe_tensor* made = nullptr;
  check(api->tensor_map(keys.get(), handles.data(), handles.size(), &made));
  return own(made);
}

// Frees the tensor of a capsule, the base of an array.
void free_capsule(PyObject* capsule) {
  api->tensor_free(static_cast<lathe_tensor*>(PyCapsule_GetPointer(capsule, "lathe_tensor")));
}

nb::object strings_to(lathe_tensor* tensor, int rank, const int64_t* dims) {
  npy_intp shape[16];
  for (int i = 0; i < rank; ++i) shape[i] = dims[i];
  nb::object array = steal_array(PyArray_SimpleNew(rank, shape, NPY_OBJECT));
  auto** items = static_cast<PyObject**>(PyArray_DATA(as_array(array)));
  std::vector<lathe_text> texts(static_cast<size_t>(api->tensor_count(tensor)));
  check(api->tensor_strings(tensor, texts.data(), texts.size()));
  for (size_t i = 0; i < texts.size(); ++i) {
    PyObject* item = PyUnicode_DecodeUTF8(texts[i].data, static_cast<Py_ssize_t>(texts[i].bytes),
                                          "surrogateescape");
    if (item == nullptr) throw nb::python_error();
    Py_XDECREF(items[i]);
    items[i] = item;
  }
  return array;
}

// An array over the tensor's own memory; `type` may be u8 for packed bytes.
nb::object share(Handle<lathe_tensor> tensor, lathe_element_type type, int rank,
                 const npy_intp* dims, const npy_intp* strides) {
  void* data = api->tensor_data(tensor.get());
  PyArray_Descr* dtype = descriptor_of(type);
  const nb::object made = steal_array(PyArray_NewFromDescr(
      &PyArray_Type, dtype, rank, dims, strides, data, NPY_ARRAY_WRITEABLE, nullptr));
  PyObject* capsule = PyCapsule_New(tensor.get(), "lathe_tensor", free_capsule);
  if (capsule == nullptr) throw nb::python_error();
  tensor.release();
  if (PyArray_SetBaseObject(as_array(made), capsule) < 0) throw nb::python_error();
  PyArray_UpdateFlags(as_array(made), NPY_ARRAY_UPDATE_ALL);
  return made;
}

nb::object array_of(Handle<lathe_tensor> tensor, bool packed) {
  const lathe_element_type type = api->tensor_type(tensor.get());
  const int rank = api->tensor_rank(tensor.get());
  const int64_t* dims = api->tensor_dims(tensor.get());
  if (type == LATHE_STRING) return strings_to(tensor.get(), rank, dims);
  const int bits = bits_of(type);
  npy_intp shape[16];
  npy_intp strides[16];
  const int64_t* steps = api->tensor_strides(tensor.get());
  for (int i = 0; i < rank; ++i) {
    shape[i] = dims[i];
    strides[i] = steps[i] * bits / 8;
  }
  if (bits >= 8) return share(std::move(tensor), type, rank, shape, strides);
  if (packed) {
    const npy_intp bytes = api->tensor_bytes(tensor.get());
    return share(std::move(tensor), LATHE_U8, 1, &bytes, nullptr);
  }
  nb::object array = steal_array(PyArray_NewFromDescr(&PyArray_Type, descriptor_of(type), rank,
                                                      shape, nullptr, nullptr, 0, nullptr));
  unpack(static_cast<const uint8_t*>(api->tensor_data(tensor.get())),
         api->tensor_count(tensor.get()), bits, type == LATHE_I4 || type == LATHE_I2,
         static_cast<uint8_t*>(PyArray_DATA(as_array(array))));
  return array;
}

}  // namespace

bool view_of(PyObject* object, ArrayView& view) {
  if (!PyArray_Check(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  const lathe_element_type type = type_of_number(PyArray_TYPE(array));
  if (type == 0 || type == LATHE_STRING || bits_of(type) < 8) return false;
  constexpr int kNeeded = NPY_ARRAY_ALIGNED;
  const int rank = PyArray_NDIM(array);
  if (!PyArray_CHKFLAGS(array, kNeeded) || !PyArray_ISNOTSWAPPED(array) || rank > 16) return false;
  view.type = type;
  view.rank = rank;
  view.data = PyArray_DATA(array);
  const npy_intp bytes = bits_of(type) / 8;
  const npy_intp* dims = PyArray_DIMS(array);
  const npy_intp* strides = PyArray_STRIDES(array);
  for (int i = 0; i < rank; ++i) {
    view.dims[i] = dims[i];
    view.strides[i] = strides[i] / bytes;
    if (strides[i] % bytes != 0) return false;
  }
  return true;
}

PyObject* new_array(lathe_element_type type, const int64_t* dims, int rank, void** data) {
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  PyObject* made =
      PyArray_NewFromDescr(&PyArray_Type, descriptor_of(type), rank,
                           reinterpret_cast<const npy_intp*>(dims), nullptr, nullptr, 0, nullptr);
  if (made != nullptr) *data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(made));
  return made;
}

Handle<lathe_tensor> to_value(nb::handle object, const lathe_value_info* expected) {
  const bool is_tensor = expected == nullptr || expected->kind == LATHE_VALUE_TENSOR;
  const bool is_sequence =
      expected != nullptr &&
      (expected->kind == LATHE_VALUE_SEQUENCE ||
       (expected->kind == LATHE_VALUE_OPTIONAL && nb::isinstance<nb::list>(object) &&
        std::string_view(expected->type).starts_with("opt<seq<")));
  if (PyArray_Check(object.ptr())) return tensor_from_array(nb::borrow(object));
  if (is_sequence) return sequence_from(object);
  if (object.is_none()) {
    if (is_tensor && expected != nullptr)
      raise(LATHE_INVALID_ARGUMENT, "None is not a tensor", "type");
    lathe_tensor* made = nullptr;
    check(api->tensor_none(&made));
    return own(made);
  }
  if (nb::isinstance<nb::dict>(object)) return map_from(object);
  if (!is_tensor && expected->kind != LATHE_VALUE_OPTIONAL) {
    raise(LATHE_UNSUPPORTED, std::string("values of type ") + expected->type +
                                 " cannot be passed as inputs from Python");
  }
  if (expected == nullptr && nb::isinstance<nb::list>(object)) return sequence_from(object);
  PyArray_Descr* dtype = nullptr;  // a list of numbers takes the type of the input
  if (expected != nullptr && is_tensor && bits_of(expected->element_type) >= 8) {
    dtype = descriptor_of(expected->element_type);
  }
  PyObject* made = PyArray_FromAny(object.ptr(), dtype, 0, 0, NPY_ARRAY_CARRAY_RO, nullptr);
  if (made == nullptr) {
    nb::python_error failure;
    if (!failure.matches(PyExc_ValueError) && !failure.matches(PyExc_TypeError)) throw failure;
    const nb::str reason(failure.value());
    raise(LATHE_INVALID_ARGUMENT, std::string("not convertible to an array: ") + reason.c_str(),
          "type");
  }
  return tensor_from_array(nb::steal(made));
}

nb::object from_value(Handle<lathe_tensor> tensor, bool packed) {
  switch (api->tensor_kind(tensor.get())) {
    case LATHE_VALUE_TENSOR:
      return array_of(std::move(tensor), packed);
    case LATHE_VALUE_SEQUENCE: {
      nb::list items;
      const size_t count = api->tensor_item_count(tensor.get());
      for (size_t i = 0; i < count; ++i) {
        lathe_tensor* item = nullptr;
        check(api->tensor_item(tensor.get(), i, &item));
        items.append(from_value(own(item), packed));
      }
      return items;
    }
    case LATHE_VALUE_NONE:
      return nb::none();
    default:
      return dict_of(tensor.get(), packed);
  }
}

void add_arrays(nb::module_& module) {
  module.def("element_type", type_of_dtype, nb::arg("dtype"));
  module.def("dtype", dtype_of, nb::arg("element_type"));
  module.def(
      "onnx_type_name", [](lathe_element_type type) { return to_str(onnx_type_name(type)); },
      nb::arg("element_type"));
  // The dense bytes of an array with elements below 8 bits; other arrays as they are.
  module.def(
      "packed", [](nb::handle array) { return from_value(to_value(array, nullptr), true); },
      nb::arg("array"));
  module.def("bits", bits_of, nb::arg("element_type"));
}

}  // namespace lathe_python

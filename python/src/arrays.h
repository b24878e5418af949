// SPDX-License-Identifier: MIT
// Conversion between Python objects and the values of the C interface.
#pragma once

#include "core.h"

namespace lathe_python {

// The memory of a dense or strided tensor. `owner` is a NumPy array that holds it; null for none.
struct ArrayView {
  lathe_element_type type = 0;
  int rank = 0;
  int64_t dims[16];
  int64_t strides[16];  // in elements
  void* data = nullptr;
};

// True for an object that is a NumPy array, and fills in its view where its elements can be used
// in place: a numeric type, native byte order, aligned, strides of whole elements.
bool view_of(PyObject* object, ArrayView& view);

// A new NumPy array of a numeric type of at least 8 bits and its data; null with a Python error.
PyObject* new_array(lathe_element_type type, const int64_t* dims, int rank, void** data);

// A value of any kind: NumPy arrays and what np.asarray takes, strings, lists (of sequences), None.
// `expected` of kind LATHE_VALUE_TENSOR converts Python numbers and lists to its element type.
Handle<lathe_tensor> to_value(nb::handle object, const lathe_value_info* expected);

// NumPy arrays share the tensor's memory; strings become object arrays, sequences lists. `packed`
// leaves types below 8 bits as bytes.
nb::object from_value(Handle<lathe_tensor> tensor, bool packed = false);

// "tensor(float)" in the spelling of ONNX Runtime.
const char* onnx_type_name(lathe_element_type type);

// NumPy's dtype object of an element type (strings: object).
nb::object dtype_of(lathe_element_type type);
// The element type of a dtype, 0 for none.
lathe_element_type type_of_dtype(nb::handle dtype);

// True if the array's elements are one byte each and hold fewer bits.
int bits_of(lathe_element_type type);

}  // namespace lathe_python

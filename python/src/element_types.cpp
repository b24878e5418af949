// SPDX-License-Identifier: MIT
// Element types and their NumPy dtypes, those of ml_dtypes included.
#define LATHE_OWNS_NUMPY_API
#include "element_types.h"
#include "arrays.h"
#include "numpy_api.h"

namespace lathe_python {
namespace {

struct Row {
  lathe_element_type type;
  int number;             // of NumPy; 0 with `extension`
  const char* extension;  // name in ml_dtypes
  const char* onnx;       // in the spelling of ONNX Runtime
  int bits;
};
constexpr Row kRows[] = {
    {LATHE_F32, NPY_FLOAT, nullptr, "tensor(float)", 32},
    {LATHE_U8, NPY_UBYTE, nullptr, "tensor(uint8)", 8},
    {LATHE_I8, NPY_BYTE, nullptr, "tensor(int8)", 8},
    {LATHE_U16, NPY_USHORT, nullptr, "tensor(uint16)", 16},
    {LATHE_I16, NPY_SHORT, nullptr, "tensor(int16)", 16},
    {LATHE_I32, NPY_INT, nullptr, "tensor(int32)", 32},
    {LATHE_I64, NPY_INT64, nullptr, "tensor(int64)", 64},
    {LATHE_STRING, NPY_OBJECT, nullptr, "tensor(string)", 0},
    {LATHE_BOOL, NPY_BOOL, nullptr, "tensor(bool)", 8},
    {LATHE_F16, NPY_HALF, nullptr, "tensor(float16)", 16},
    {LATHE_F64, NPY_DOUBLE, nullptr, "tensor(double)", 64},
    {LATHE_U32, NPY_UINT, nullptr, "tensor(uint32)", 32},
    {LATHE_U64, NPY_UINT64, nullptr, "tensor(uint64)", 64},
    {LATHE_C64, NPY_CFLOAT, nullptr, "tensor(complex64)", 64},
    {LATHE_C128, NPY_CDOUBLE, nullptr, "tensor(complex128)", 128},
    {LATHE_BF16, 0, "bfloat16", "tensor(bfloat16)", 16},
    {LATHE_F8E4M3FN, 0, "float8_e4m3fn", "tensor(float8e4m3fn)", 8},
    {LATHE_F8E4M3FNUZ, 0, "float8_e4m3fnuz", "tensor(float8e4m3fnuz)", 8},
    {LATHE_F8E5M2, 0, "float8_e5m2", "tensor(float8e5m2)", 8},
    {LATHE_F8E5M2FNUZ, 0, "float8_e5m2fnuz", "tensor(float8e5m2fnuz)", 8},
    {LATHE_U4, 0, "uint4", "tensor(uint4)", 4},
    {LATHE_I4, 0, "int4", "tensor(int4)", 4},
    {LATHE_F4E2M1, 0, "float4_e2m1fn", "tensor(float4e2m1)", 4},
    {LATHE_F8E8M0, 0, "float8_e8m0fnu", "tensor(float8e8m0)", 8},
    {LATHE_U2, 0, "uint2", "tensor(uint2)", 2},
    {LATHE_I2, 0, "int2", "tensor(int2)", 2},
};
constexpr int kRowCount = sizeof kRows / sizeof kRows[0];
static_assert(kRowCount == LATHE_I2);

const Row* row_of(lathe_element_type type) {
  return type >= 1 && type <= kRowCount ? &kRows[type - 1] : nullptr;
}

// dtype objects by element type, never freed; those of ml_dtypes are imported at first use.
PyArray_Descr* descriptors[kRowCount + 1] = {};
bool has_extensions = false;

void import_extensions() {
  const nb::module_ ml = nb::module_::import_("ml_dtypes");
  for (const Row& row : kRows) {
    if (row.extension == nullptr || !nb::hasattr(ml, row.extension)) continue;
    PyArray_Descr* found = nullptr;
    const nb::object type = ml.attr(row.extension);
    if (PyArray_DescrConverter(type.ptr(), &found) == 0) throw nb::python_error();
    descriptors[row.type] = found;
  }
  has_extensions = true;
}

}  // namespace

void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

int bits_of(lathe_element_type type) {
  const Row* row = row_of(type);
  return row == nullptr ? 0 : row->bits;
}

const char* onnx_type_name(lathe_element_type type) {
  const Row* row = row_of(type);
  return row == nullptr ? "tensor(undefined)" : row->onnx;
}

PyArray_Descr* descriptor_of(lathe_element_type type) {
  const Row* row = row_of(type);
  if (row == nullptr)
    raise(LATHE_UNSUPPORTED, "element type " + std::to_string(type) + " has no dtype");
  if (descriptors[type] == nullptr) {
    if (row->extension == nullptr) {
      descriptors[type] = PyArray_DescrFromType(row->number);
    } else if (!has_extensions) {
      import_extensions();
    }
  }
  if (descriptors[type] == nullptr) {
    raise(LATHE_UNSUPPORTED, std::string("element type ") + row->extension +
                                 " requires a newer ml_dtypes: pip install --upgrade ml_dtypes");
  }
  Py_INCREF(reinterpret_cast<PyObject*>(descriptors[type]));
  return descriptors[type];
}

lathe_element_type type_of_number(int number) {
  switch (number) {
    case NPY_BOOL:
      return LATHE_BOOL;
    case NPY_BYTE:
      return LATHE_I8;
    case NPY_UBYTE:
      return LATHE_U8;
    case NPY_SHORT:
      return LATHE_I16;
    case NPY_USHORT:
      return LATHE_U16;
    case NPY_INT:
      return LATHE_I32;
    case NPY_UINT:
      return LATHE_U32;
    case NPY_LONG:
      return sizeof(long) == 8 ? LATHE_I64 : LATHE_I32;
    case NPY_ULONG:
      return sizeof(long) == 8 ? LATHE_U64 : LATHE_U32;
    case NPY_LONGLONG:
      return LATHE_I64;
    case NPY_ULONGLONG:
      return LATHE_U64;
    case NPY_HALF:
      return LATHE_F16;
    case NPY_FLOAT:
      return LATHE_F32;
    case NPY_DOUBLE:
      return LATHE_F64;
    case NPY_CFLOAT:
      return LATHE_C64;
    case NPY_CDOUBLE:
      return LATHE_C128;
    case NPY_OBJECT:
    case NPY_STRING:
    case NPY_UNICODE:
      return LATHE_STRING;
    default:
      break;
  }
  if (number < NPY_USERDEF) return 0;
  if (!has_extensions) import_extensions();
  for (const Row& row : kRows) {
    if (row.extension != nullptr && descriptors[row.type] != nullptr &&
        descriptors[row.type]->type_num == number) {
      return row.type;
    }
  }
  return 0;
}

nb::object dtype_of(lathe_element_type type) {
  return nb::steal(reinterpret_cast<PyObject*>(descriptor_of(type)));
}

lathe_element_type type_of_dtype(nb::handle dtype) {
  PyArray_Descr* found = nullptr;
  if (PyArray_DescrConverter(dtype.ptr(), &found) == 0) throw nb::python_error();
  const lathe_element_type type = type_of_number(found->type_num);
  Py_DECREF(reinterpret_cast<PyObject*>(found));
  return type;
}

}  // namespace lathe_python

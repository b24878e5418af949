// SPDX-License-Identifier: MIT
// NumPy's C API, whose table numpy_api.cpp owns. It compiles for the limited API of Python.
#pragma once

#include "core.h"

#define NPY_NO_DEPRECATED_API NPY_1_23_API_VERSION
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL lathe_python_numpy
#ifndef LATHE_OWNS_NUMPY_API
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

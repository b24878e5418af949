// SPDX-License-Identifier: MIT
#pragma once

#include "core.h"
#include "numpy_api.h"

namespace lathe_python {

void import_numpy();
// A new reference. Raises Unsupported for a type without a dtype.
PyArray_Descr* descriptor_of(lathe_element_type type);
// The element type of a NumPy type number; 0 for none.
lathe_element_type type_of_number(int number);

}  // namespace lathe_python

// SPDX-License-Identifier: MIT
#pragma once

#include "core.h"

namespace lathe_python {

struct Program {
  Handle<lathe_program> handle;
};

struct Plan {
  Handle<lathe_plan> handle;
};

// (name, kind, element type, dims or None, dim names, type text, dim denotations, has default):
// dims are integers, None where the size is not fixed.
nb::tuple describe(const lathe_value_info& info);

}  // namespace lathe_python

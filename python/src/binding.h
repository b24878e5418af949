// SPDX-License-Identifier: MIT
#pragma once

#include "sessions.h"

namespace lathe_python {

void add_bindings(nb::module_& module);

}  // namespace lathe_python

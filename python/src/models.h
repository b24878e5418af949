// SPDX-License-Identifier: MIT
#pragma once

#include "core.h"

namespace lathe_python {

struct Model {
  Handle<lathe_model> handle;
};

struct GeneratorParams {
  Handle<lathe_generator_params> handle;
};

}  // namespace lathe_python

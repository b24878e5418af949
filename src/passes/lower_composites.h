// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ir/pass.h"

namespace lathe {

// Replaces composites by their expansions until none is left that `expands` says true for.
Pass lower_composites(std::function<bool(const Instruction&)> expands);

}  // namespace lathe

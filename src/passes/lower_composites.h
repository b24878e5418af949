// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ir/pass.h"

namespace lathe {

// Replaces composites by their expansions until `expands` returns false for all that remain.
Pass lower_composites(std::function<bool(const Instruction&)> expands);

}  // namespace lathe

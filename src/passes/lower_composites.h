// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "ir/program.h"

namespace lathe {

// Replaces composites by their expansions until none is left that `expands` says true for.
bool lower_composites(Program& program, const std::function<bool(const Instruction&)>& expands);

}  // namespace lathe

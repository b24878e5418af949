// SPDX-License-Identifier: MIT
// Shared by ops on states.
#pragma once

#include "ir/program.h"

namespace lathe {

// The state of a state op; InvalidModel if the program has no state of that name.
const State& state_of(const Instruction& instruction);

}  // namespace lathe

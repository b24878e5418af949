// SPDX-License-Identifier: MIT
// What the ops on states share.
#pragma once

#include "ir/program.h"

namespace lathe {

// The state that a state op names; InvalidModel if the program has none of that name.
const State& state_of(const Instruction& instruction);

}  // namespace lathe

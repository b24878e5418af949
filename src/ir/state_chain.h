// SPDX-License-Identifier: MIT
// The versions of a state: `state_read` returns the first, an op that updates one returns the next.
#pragma once

#include <string>

#include "ir/program.h"

namespace lathe {

// The instruction that reads the state of this version; null if the value is no version.
const Instruction* state_read_of(const Value* version);
// The name of the state of this version; empty if the value is no version.
std::string state_name_of(const Value* version);
// True if the user replaces the value by the next version.
bool is_update(const Use& use);
// True for an op on states alone, and for one that takes a version and returns the next.
bool updates_state(const Instruction& instruction);
// The version after all updates.
Value* last_version(Value* version);

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Two versions of a program, compared instruction by instruction on the same inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe {

// Values that both versions compute are cut: `cut` takes the reference's in place of its own
// wherever they are used, so that no difference reaches the next instruction.
struct Anchored {
  std::unique_ptr<Program> reference;  // its results: the shared values
  std::unique_ptr<Program> cut;  // its last inputs: those values; its results: its own of them
  struct Value {
    std::string name;
    bool quantises = false;  // rounds to integers inside
  };
  std::vector<Value> values;
};

// Shared values have the same name, type and origin in both mains.
Anchored anchor(const Program& reference, const Program& other);

// Whether this instruction turns floats into integers of few bits, in its result or inside.
bool quantises_at_run_time(const Instruction& instruction);

}  // namespace lathe

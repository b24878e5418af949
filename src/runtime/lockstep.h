// SPDX-License-Identifier: MIT
// Lockstep comparison of two versions of a program, per instruction on the same inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe {

// `other` uses the reference's shared values instead of its own, so that no error propagates to the
// next instruction.
struct Lockstep {
  std::unique_ptr<Program> reference;  // results: the shared values
  std::unique_ptr<Program> other;      // last inputs: the shared values; results: its own versions
  struct Value {
    std::string name;
    bool quantises = false;  // its instruction rounds to integers
    int64_t steps = 1;       // by which a quantised value may differ
  };
  std::vector<Value> values;
};

// Values of equal name, type and origin in both mains are shared. A fused quantised op keeps the
// name of the bytes that it replaces, so it is compared on their producers' bytes: it may be one
// step away, and what follows reads the reference's bytes. In a region that quantises twice, a step
// of the first bytes moves the result by the ratio of both scales.
Lockstep make_lockstep(const Program& reference, const Program& other);

// True if the instruction rounds floats to integers of at most 8 bits, in its result or internally.
bool quantises_at_run_time(const Instruction& instruction);

}  // namespace lathe

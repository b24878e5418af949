// SPDX-License-Identifier: MIT
// Verifies programs: types, uses, order, ownership, symbols, states and stage.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe {

struct VerifyOptions {
  bool stage_spec = true;  // off between the passes of a stage, which lead to the next stage
  // Also admits constructs of the next stage: programs are printed between passes.
  bool under_way = false;
};

// Problems, one line each with the instruction and both types; at most 100. Const.
std::vector<std::string> find_problems(const Program& program, const VerifyOptions& options = {});

// Internal error with the problems as notes, if there are any.
void verify(const Program& program, const VerifyOptions& options = {});

}  // namespace lathe

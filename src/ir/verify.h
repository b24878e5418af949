// SPDX-License-Identifier: MIT
// Whether a program is whole: types, uses, order, ownership, symbols, states and its stage.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe {

struct VerifyOptions {
  bool stage_spec = true;  // off between the passes of a stage, which lead to the next one's
  // What the next stage admits is admitted too: texts are written between passes as well.
  bool under_way = false;
};

// What is wrong, one line each with the instruction and both types; at most 100. Touches nothing.
std::vector<std::string> find_problems(const Program& program, const VerifyOptions& options = {});

// An Internal error with the problems as notes, if there are any.
void verify(const Program& program, const VerifyOptions& options = {});

}  // namespace lathe

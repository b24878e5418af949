// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include "ir/program.h"

namespace lathe {

// The name of main's input that holds a tensor's past, and of its result that holds the present.
struct StatePair {
  std::string past;
  std::string present;
};

// Turns pairs of inputs and results into states. A present that is concat(past, x) becomes
// state_append; the last rows of one, a window; anything else replaces the state. The extent that
// grows becomes a length symbol. InvalidArgument if a name is unknown or the types do not fit.
void promote_state(Program& program, std::span<const StatePair> pairs);

}  // namespace lathe

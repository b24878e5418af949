// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include "ir/program.h"

namespace lathe {

// The input of main that holds a tensor's past, and the result that holds its present.
struct StatePair {
  std::string past;
  std::string present;
};

// Replaces pairs of inputs and results by states. If the present is concat(past, x), the state is
// appended to; if it is a trailing slice of that, the state is a window; else it is replaced. The
// growing dimension becomes a length symbol. InvalidArgument if a name is unknown or the types
// differ.
void promote_state(Program& program, std::span<const StatePair> pairs);

}  // namespace lathe

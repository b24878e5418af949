// SPDX-License-Identifier: MIT
// Draws programs for Graphviz.
#pragma once

#include <string>

#include "ir/program.h"

namespace lathe {

// A directed graph in DOT: one cluster per module, a node per instruction, an edge per operand
// labelled with its type. A literal is drawn inside the nodes that use it.
std::string to_dot(const Program& program);

}  // namespace lathe

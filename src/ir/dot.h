// SPDX-License-Identifier: MIT
// Programs as drawings, for Graphviz.
#pragma once

#include <string>

#include "ir/program.h"

namespace lathe {

// A directed graph in DOT: one cluster per module, a node per instruction, an edge per operand
// labelled with its type. Literals stand inside the nodes that use them.
std::string to_dot(const Program& program);

}  // namespace lathe

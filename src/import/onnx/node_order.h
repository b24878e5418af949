// SPDX-License-Identifier: MIT
// Orders the nodes of a graph and checks the calls between model-local functions.
#pragma once

#include <string_view>
#include <vector>

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// For each node, the indices of the nodes whose outputs it uses, directly or in a subgraph.
using NodeUses = std::vector<std::vector<int64_t>>;

// Sorts nodes topologically; among ready nodes the earliest comes first, so a sorted list keeps
// its order. InvalidModel, naming the nodes, for a cycle; `where` is for its message.
void sort_nodes(std::vector<Node>& nodes, const NodeUses& uses, std::string_view where);

// InvalidModel unless functions are distinct, not recursive, and inline to a bounded number of
// nodes.
void check_calls(const Model& model);

}  // namespace lathe::onnx

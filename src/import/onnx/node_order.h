// SPDX-License-Identifier: MIT
// Order and reachability: nodes of one graph, calls between model-local functions.
#pragma once

#include <string_view>
#include <vector>

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// For each node, the places of the nodes whose outputs it uses, directly or in a subgraph.
using NodeUses = std::vector<std::vector<int64_t>>;

// Leaves a list that is in order as it is; else the earliest node that can come next comes next.
// InvalidModel, naming the nodes, if there is a cycle. `where` is for that message.
void sort_nodes(std::vector<Node>& nodes, const NodeUses& uses, std::string_view where);

// Functions are distinct, do not call themselves, and inline to a bounded number of nodes.
void check_calls(const Model& model);

}  // namespace lathe::onnx

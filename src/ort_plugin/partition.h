// SPDX-License-Identifier: MIT
// Cuts a graph with refused nodes into groups that one call can run each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "import/onnx/graph_view.h"

namespace lathe::ort_plugin {

struct NodeFacts {
  bool supported = true;
  bool heavy = false;  // a matrix multiplication, convolution or attention
};

struct PartitionOptions {
  // Groups with fewer nodes, none of them heavy, are dropped; unless every node is supported.
  size_t least_nodes = 8;
};

// Groups of nodes by index, each ascending. Every group is convex, and the groups with the other
// nodes form no cycle. Only tensors cross a group's boundary: nodes at others are left out. Small
// integer tensors are computed in the group of their users where that is possible.
std::vector<std::vector<size_t>> partition(const onnx::Graph& graph,
                                           const std::vector<NodeFacts>& facts,
                                           const PartitionOptions& options = {});

// True for operators whose time is worth a call of its own.
bool is_heavy(const onnx::Node& node);

}  // namespace lathe::ort_plugin

// SPDX-License-Identifier: MIT
// Which nodes of a graph can be imported, without importing or compiling all of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/graph_view.h"
#include "import/onnx/importer.h"

namespace lathe::onnx {

// Names of the values that a node reads: its inputs, then what its subgraphs capture; each once.
std::vector<std::string_view> values_read(const Node& node);

// A model of some nodes of the main graph, in order. Its inputs are the values that they read and
// do not compute, with the types that the graph states; initialisers keep their place. Its outputs
// are `outputs`, or all values that the nodes compute if it is empty. Shares the model's memory.
Model part_of(const Model& model, const std::vector<const Node*>& nodes,
              const std::vector<std::string_view>& outputs = {});

// For each node of the main graph why it cannot be imported by itself, with the types of values
// that the graph states; "" if it can. The model must be well-formed.
std::vector<std::string> node_refusals(const Model& model);
// As node_refusals where the model cannot be imported as a whole; else no node is refused.
std::vector<std::string> refusals(const Model& model, const ImportOptions& options = {});

}  // namespace lathe::onnx

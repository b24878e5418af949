// SPDX-License-Identifier: MIT
// Names compiled groups by what they were compiled from.
#pragma once

#include <string>
#include <string_view>

#include "import/onnx/graph_view.h"

namespace lathe::ort_plugin {

// 32 hexadecimal digits that change with everything in the model's graph that compilation reads
// (nodes, attributes, types, constants and the names that tie them) and with `settings`. The names
// of nodes and of the graph, and who made the model, change nothing. Reads all constants.
std::string model_digest(const onnx::Model& model, std::string_view settings);

}  // namespace lathe::ort_plugin

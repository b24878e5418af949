// SPDX-License-Identifier: MIT
// The constants of a group after the host has dropped its own.
#pragma once

#include "import/onnx/graph_view.h"

namespace lathe::ort_plugin {

// Copies a constant that lies in the host's memory. Equal large ones of all sessions share a copy.
void own_constant(onnx::TensorData& data);
// All of a graph and of its subgraphs.
void own_constants(onnx::Graph& graph);

}  // namespace lathe::ort_plugin

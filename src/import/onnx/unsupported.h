// SPDX-License-Identifier: MIT
// Finds all unsupported operators of a model.
#pragma once

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// Unsupported if the model, its subgraphs or its called functions use unsupported operators. The
// message lists each with its count and first node.
void check_supported(const Model& model);

}  // namespace lathe::onnx

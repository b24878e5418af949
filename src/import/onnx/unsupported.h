// SPDX-License-Identifier: MIT
// What Lathe lacks to import a model, all at once.
#pragma once

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// Unsupported, naming every operator of the model (subgraphs and called functions included) that
// has no import, how often each occurs and where first.
void check_supported(const Model& model);

}  // namespace lathe::onnx

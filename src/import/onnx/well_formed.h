// SPDX-License-Identifier: MIT
// What every importer may rely on, whoever made the model.
#pragma once

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// Checks, else InvalidModel: opsets are imported; every name is defined once in its graph, and
// before use or in an enclosing graph; outputs exist; functions are distinct and do not call
// themselves. Nodes that stand before what they use are moved behind it.
void make_well_formed(Model& model);

}  // namespace lathe::onnx

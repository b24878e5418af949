// SPDX-License-Identifier: MIT
// Checks the invariants that the importer relies on.
#pragma once

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// InvalidModel unless opsets are imported, every name is defined once in its graph and before its
// use, outputs exist, and functions are distinct and not recursive. Sorts nodes topologically.
void make_well_formed(Model& model);

}  // namespace lathe::onnx

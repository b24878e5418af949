// SPDX-License-Identifier: MIT
// Imports a graph view into Lathe's IR.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "import/onnx/graph_view.h"
#include "ir/program.h"

namespace lathe {

struct ImportOptions {
  // Inputs with a default (an initialiser) that become parameters, not literals.
  std::set<std::string, std::less<>> fed{};
};

// Returns the imported program: at least one instruction per node, each with its origin. Literals
// share the model's memory. Unsupported lists every unsupported operator; InvalidModel names the
// wrong node.
std::unique_ptr<Program> import_onnx(const onnx::Model& model, const ImportOptions& options = {});

}  // namespace lathe

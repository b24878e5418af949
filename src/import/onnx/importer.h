// SPDX-License-Identifier: MIT
// From the graph view to Lathe's IR.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "import/onnx/graph_view.h"
#include "ir/program.h"

namespace lathe {

struct ImportOptions {
  // Inputs with an initialiser as default that the caller will feed: parameters, not literals.
  std::set<std::string, std::less<>> fed{};
};

// The imported program: one instruction or more per node, each with its origin. Unsupported names
// every operator that Lathe lacks at once; InvalidModel says which node is wrong. Literals share
// the model's memory.
std::unique_ptr<Program> import_onnx(const onnx::Model& model, const ImportOptions& options = {});

}  // namespace lathe

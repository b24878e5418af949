// SPDX-License-Identifier: MIT
// What a model's file states beside its graph.
#pragma once

#include <memory>

#include "import/onnx/importer.h"
#include "ir/model_info.h"

namespace lathe::onnx {

// `fed`: inputs with a default that become parameters; their defaults are kept.
std::shared_ptr<const ModelInfo> model_info(const Model& model, const ImportOptions& options);

}  // namespace lathe::onnx

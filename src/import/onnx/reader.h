// SPDX-License-Identifier: MIT
// Reads ONNX models, binary or textual, from files and bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// Reads a model from a file. Weights stay in the mapped file until they are used. External data is
// beside the file or in `data`, by names relative to it. Io if the file cannot be read;
// InvalidModel, with the detected format, if it is not an ONNX model.
Model read_model(const std::string& path, const MemoryFiles& data = {});

// Reads a model from bytes that `owner` keeps alive. With a null owner the caller keeps them alive
// as long as the model and its tensors. `folder` has the external data that is not in `data`; may
// be empty.
Model parse_model(std::string_view bytes, std::string_view origin,
                  std::shared_ptr<const void> owner, const std::string& folder = "",
                  const MemoryFiles& data = {});

}  // namespace lathe::onnx

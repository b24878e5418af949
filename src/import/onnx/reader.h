// SPDX-License-Identifier: MIT
// ONNX models out of files and bytes, binary or textual.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// The model in a file. Weights stay in the mapped file until somebody reads them.
// Io if the file cannot be read, InvalidModel (with what it looks like) if it is no ONNX model.
Model read_model(const std::string& path);

// The same of bytes that `owner` keeps alive; a null owner means that the caller does, as long as
// the model and tensors made from it live. `folder`, if not empty, is where external data lies.
Model parse_model(std::string_view bytes, std::string_view origin,
                  std::shared_ptr<const void> owner, const std::string& folder = "");

}  // namespace lathe::onnx

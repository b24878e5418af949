// SPDX-License-Identifier: MIT
// ONNX models out of files and bytes, binary or textual.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "import/onnx/graph_view.h"

namespace lathe::onnx {

// The model in a file. Weights stay in the mapped file until somebody reads them. External data
// lies beside the file, or in `data`, by its name as seen from there. Io if the file cannot be
// read, InvalidModel (with what it looks like) if it is no ONNX model.
Model read_model(const std::string& path, const MemoryFiles& data = {});

// The same of bytes that `owner` keeps alive; a null owner means that the caller does, as long as
// the model and tensors made from it live. `folder`, if not empty, is where external data lies that
// is not in `data`.
Model parse_model(std::string_view bytes, std::string_view origin,
                  std::shared_ptr<const void> owner, const std::string& folder = "",
                  const MemoryFiles& data = {});

}  // namespace lathe::onnx

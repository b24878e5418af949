// SPDX-License-Identifier: MIT
// A program out of any file that holds one.
#pragma once

#include <memory>
#include <string>

#include "base/folder.h"
#include "import/onnx/importer.h"

namespace lathe {

// An ONNX model (binary or textual) or a program's text, known by its content. A program's text
// finds large literals in `path` + ".literals" and in the files it names. `data`: an ONNX model's
// external data that lies in memory, by names as seen from the model's folder.
std::unique_ptr<Program> load_model(const std::string& path, const ImportOptions& options = {},
                                    const MemoryFiles& data = {});

}  // namespace lathe

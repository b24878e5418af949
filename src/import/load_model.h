// SPDX-License-Identifier: MIT
// Loads a program from a model file.
#pragma once

#include <memory>
#include <string>

#include "base/folder.h"
#include "import/onnx/importer.h"

namespace lathe {

// Loads an ONNX model (binary or textual) or a program text; the content decides which. A program
// text reads large literals from `path` + ".literals" and from the files it names. `data` holds
// external data in memory, by names relative to the model's folder.
std::unique_ptr<Program> load_model(const std::string& path, const ImportOptions& options = {},
                                    const MemoryFiles& data = {});

}  // namespace lathe

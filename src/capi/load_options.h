// SPDX-License-Identifier: MIT
// The caller's options of loading a model.
#pragma once

#include <memory>

#include "base/folder.h"
#include "import/onnx/importer.h"
#include "lathe/lathe.h"

namespace lathe::capi {

ImportOptions import_options(const lathe_load_options& options);
// Refers to the bytes if `owner` keeps them alive, else copies them.
MemoryFiles data_files(const lathe_load_options& options, std::shared_ptr<const void> owner);

}  // namespace lathe::capi

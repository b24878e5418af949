// SPDX-License-Identifier: MIT
// Checks a model folder.
#pragma once

#include <string>

#include "base/options.h"
#include "base/output.h"

namespace lathe::cli {

// Prints a row for each finding and throws the first problem. `overlay` is merged into the
// configuration.
void doctor_folder(const std::string& path, const std::string& overlay, const Options& options,
                   Output& out);

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// What a model folder is, and what keeps it from running.
#pragma once

#include <string>

#include "base/options.h"
#include "base/output.h"

namespace lathe::cli {

// A row for each finding; `overlay` is merged into the configuration. The exit code is that of the
// first problem, 0 if there is none.
int doctor_folder(const std::string& path, const std::string& overlay, const Options& options,
                  Output& out);

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// Verifies a folder of models with stored inputs and outputs.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "cli/verify_report.h"

namespace lathe::cli {

// Verifies every model folder below `root` in worker processes on all cores, so that a crash or a
// hang affects one case.
Report verify_folder(const std::string& root, const Options& options);

// The worker process: reads folders from standard input, one a line, and prints a line of JSON for
// each.
void run_verify_worker(const Options& options, Output& out);

}  // namespace lathe::cli

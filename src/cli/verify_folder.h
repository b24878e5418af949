// SPDX-License-Identifier: MIT
// Whole trees of models with stored inputs and outputs.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "cli/verify_report.h"

namespace lathe::cli {

// Every model folder below `root`, in processes of their own on all cores, so that a crash or a
// hang loses one case.
Report verify_folder(const std::string& root, const Options& options);

// What such a process does: reads folders from standard input, one a line, and prints a line of
// JSON for each.
void run_verify_worker(const Options& options, Output& out);

}  // namespace lathe::cli

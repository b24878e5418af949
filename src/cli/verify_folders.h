// SPDX-License-Identifier: MIT
// Whole trees of models with stored data.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace lathe::cli {

// Runs every folder below `root` that holds a model and its data, and prints what came of it, as
// text or as one JSON object. The exit code: 1 if one failed.
int verify_folders(const std::string& root, bool json, CommandLine& line);

}  // namespace lathe::cli

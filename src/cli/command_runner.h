// SPDX-License-Identifier: MIT
// Dispatches a command line.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

// Runs the arguments after the program's name; prints errors and returns the exit code.
int run_arguments(std::vector<std::string> arguments);

}  // namespace lathe::cli

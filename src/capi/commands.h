// SPDX-License-Identifier: MIT
// The command line, where the library has it: it lies below this folder and registers itself.
#pragma once

#include <string>
#include <vector>

namespace lathe::capi {

// Runs the arguments after the program's name and returns the exit code.
using CommandRunner = int (*)(std::vector<std::string> arguments);
bool set_command_runner(CommandRunner runner);  // true

}  // namespace lathe::capi

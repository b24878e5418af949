// SPDX-License-Identifier: MIT
#pragma once

#include "cli/command_line.h"

namespace lathe::cli {

int compile_file(CommandLine& line);

}  // namespace lathe::cli

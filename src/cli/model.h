// SPDX-License-Identifier: MIT
// Which files a model is.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe::cli {

// The file itself and every file that the program's literals lie in.
std::vector<std::string> files_of(const std::string& path, const Program& program);

}  // namespace lathe::cli

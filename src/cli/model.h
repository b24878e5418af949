// SPDX-License-Identifier: MIT
// The files of a model.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe::cli {

// `path` and every file that holds a literal of the program.
std::vector<std::string> files_of(const std::string& path, const Program& program);

// A model's own file, or the files of its folder but for compiled ones, which may be written again.
std::vector<std::string> files_of_model(const std::string& path);

}  // namespace lathe::cli

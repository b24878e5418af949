// SPDX-License-Identifier: MIT
// Models as the command line takes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/program.h"

namespace lathe::cli {

// The program in a file: a program's text, recognised by its content, or a model of another format.
std::unique_ptr<Program> load_program(const std::string& path);

// The file itself and every file that the program's literals lie in.
std::vector<std::string> files_of(const std::string& path, const Program& program);

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
#include "cli/model.h"

#include <algorithm>

namespace lathe::cli {

std::vector<std::string> files_of(const std::string& path, const Program& program) {
  std::vector<std::string> files{path};
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      const LiteralRef& literal = instruction->literal();
      if (literal == nullptr || literal->file.empty()) continue;
      if (std::find(files.begin(), files.end(), literal->file) == files.end()) {
        files.push_back(literal->file);
      }
    }
  }
  return files;
}

}  // namespace lathe::cli

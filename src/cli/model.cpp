// SPDX-License-Identifier: MIT
#include "cli/model.h"

#include <algorithm>

#include "base/file_map.h"

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

std::vector<std::string> files_of_model(const std::string& path) {
  if (!is_folder(path)) return {path};
  std::vector<std::string> files;
  for (const std::string& name : list_folder(path)) {
    if (!name.ends_with(".lathe")) files.push_back(join_path(path, name));
  }
  return files;
}

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// Folder of a zoo model, unpacked for the run of a test program if needed.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/os_process.h"

namespace lathe::llm {

// Removed at exit.
inline const std::filesystem::path& unpacked_zoo() {
  struct Folder {
    Folder()
        : path(std::filesystem::temp_directory_path() / ("zoo." + std::to_string(::getpid()))) {
      std::filesystem::create_directories(path);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };
  static const Folder folder;
  return folder.path;
}

// The folder of a type, with fp32 and other forms; empty if missing.
inline std::string zoo_folder(const std::string& type) {
  const std::string zoo = "../shared/models/zoo/";
  if (std::filesystem::is_directory(zoo + type)) return zoo + type;
  const std::string archive = zoo + type + ".tar.zst";
  if (!std::filesystem::exists(archive)) return "";
  const std::string folder = unpacked_zoo() / type;
  if (!std::filesystem::exists(folder)) {
    const ProcessResult result =
        run_process({"tar", "--zstd", "-xf", archive, "-C", unpacked_zoo().string()});
    if (!result.started || result.code != 0) return "";
  }
  return folder;
}

}  // namespace lathe::llm

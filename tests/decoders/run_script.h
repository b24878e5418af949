// SPDX-License-Identifier: MIT
// Runs scripts that write test models.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os_process.h"

namespace lathe::llm {

// Runs a script of this folder. False without Python; Internal if the script fails, since that must
// not skip a test.
inline bool run_script(const std::string& script, const std::vector<std::string>& arguments) {
  const std::string python = "build/venv/bin/python";
  if (!std::filesystem::exists(python)) return false;
  std::vector<std::string> command = {python, "tests/decoders/" + script};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const ProcessResult made = run_process(command);
  check(made.started && made.code == 0, ErrorKind::internal, "{} ended with {}", script, made.code);
  return true;
}

}  // namespace lathe::llm

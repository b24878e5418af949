// SPDX-License-Identifier: MIT
// Scripts that write the models of tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os_process.h"

namespace lathe::llm {

// Runs a script of this folder. False if Python is not there; Internal if the script fails: for
// that no test may be skipped.
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

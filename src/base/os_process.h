// SPDX-License-Identifier: MIT
// Other processes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct ProcessResult {
  bool started = false;  // false: there is no such program
  int code = -1;         // exit code; -1 if a signal ended it
  int signal = 0;        // that ended it
  bool timed_out = false;
  std::string output;  // at most the limit asked for
};

struct ProcessOptions {
  std::string_view input{};
  size_t output_limit = size_t{1} << 30;
  double seconds = 0;  // 0: no limit; the process is killed then
};

// Runs a program found along PATH, with `input` as its standard input; standard error is shared.
// May be called from several threads.
ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});

// Runs `body` in a child of fork(), whose exit code is what it returns; -1 if there was no child or
// a signal ended it.
int code_of_child(const std::function<int()>& body);

// The path of the program that runs.
std::string own_program();

}  // namespace lathe

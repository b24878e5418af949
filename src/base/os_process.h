// SPDX-License-Identifier: MIT
// Child processes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct ProcessResult {
  bool started = false;  // false: program not found
  int code = -1;         // exit code; -1: terminated by a signal
  int signal = 0;        // that terminated it
  bool timed_out = false;
  std::string output;  // at most ProcessOptions::output_limit bytes
};

struct ProcessOptions {
  std::string_view input{};
  size_t output_limit = size_t{1} << 30;
  double seconds = 0;  // time limit after which the process is killed; 0: none
};

// Runs a program from PATH with `input` as its standard input and captures standard output;
// standard error is inherited. Thread-safe.
ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});

// Runs `body` in a child of fork() and returns its result as the exit code; -1 if fork failed or a
// signal terminated the child.
int code_of_child(const std::function<int()>& body);

// Path of the running program.
std::string own_program();

}  // namespace lathe

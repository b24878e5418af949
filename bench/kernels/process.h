// SPDX-License-Identifier: MIT
// A child process that answers each input line with one output line.
#pragma once

#include <string>
#include <vector>

namespace lathe::bench {

class Process {
 public:
  // Starts the process with additional environment variables; Error(io) if it fails or prints no
  // greeting.
  Process(const std::vector<std::string>& arguments,
          const std::vector<std::pair<std::string, std::string>>& variables);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& greeting() const { return greeting_; }
  // Sends a line and returns the answer; Error(io) if the process has ended.
  std::string request(const std::string& line);
  // True if one of its threads is runnable: threads of an engine may spin after their work ends.
  bool is_running() const;

 private:
  std::string read_line();
  int input_ = -1;
  int output_ = -1;
  int process_ = -1;
  std::string buffer_;
  std::string name_;
  std::string greeting_;
};

}  // namespace lathe::bench

// SPDX-License-Identifier: MIT
// A process that answers each line on its standard input by a line on its standard output.
#pragma once

#include <string>
#include <vector>

namespace lathe::bench {

class Process {
 public:
  // Starts it with these variables added; Error(io) if it cannot be started or says nothing.
  Process(const std::vector<std::string>& arguments,
          const std::vector<std::pair<std::string, std::string>>& variables);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& greeting() const { return greeting_; }
  // Error(io) if the process has ended.
  std::string ask(const std::string& line);
  // Whether one of its threads runs or could run: an engine's may spin long after they had work.
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

// SPDX-License-Identifier: MIT
// Progress of a command on standard error.
#pragma once

#include <string_view>

namespace lathe::cli {

// On a terminal, one line that each step replaces and finish() removes. Elsewhere nothing, or, if
// `all`, a line for each step.
class Progress {
 public:
  explicit Progress(bool all);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view text);
  void finish();

 private:
  bool all_;
  bool is_terminal_;
  bool shown_ = false;
};

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// What a command is doing, on standard error.
#pragma once

#include <string_view>

namespace lathe::cli {

// On a terminal one line that is replaced and vanishes at the end; otherwise nothing, or, if all is
// to be told, a line each.
class Progress {
 public:
  explicit Progress(bool all);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string_view text);
  void finish();

 private:
  bool all_;
  bool is_terminal_;
  bool shown_ = false;
};

}  // namespace lathe::cli

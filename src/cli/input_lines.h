// SPDX-License-Identifier: MIT
// The lines of standard input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

// Reads the lines in groups, without line ends.
class InputLines {
 public:
  // `chunk`: bytes of a group, unless a line is longer.
  explicit InputLines(size_t chunk = size_t{8} << 20) : chunk_(chunk) {}
  // The next group, empty at the end. Valid until the next call.
  std::vector<std::string_view> next();
  // All of standard input.
  const std::string& rest();

 private:
  void fill();
  size_t chunk_;
  std::string buffer_;
  size_t used_ = 0;
  bool ended_ = false;
};

}  // namespace lathe::cli

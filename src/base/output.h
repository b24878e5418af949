// SPDX-License-Identifier: MIT
// Buffered standard output.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// Thrown when the reader of standard output has closed it. Programs exit without a message.
class ClosedPipe {};

// Buffers writes. Throws ClosedPipe if the reader has closed the pipe, Io if a write fails, as on a
// full disk.
class Output {
 public:
  void write(std::string_view text);
  void flush();
  bool is_terminal() const;

 private:
  std::string pending_;
  size_t written_ = 0;
};

// Writes to standard error without buffering; errors are ignored.
void write_error_text(std::string_view text);
bool error_is_terminal();
bool input_is_terminal();

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Standard output of a program whose readers may go away.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// Whoever read standard output has closed it: there is nothing left to do, and nothing to say.
class ClosedPipe {};

// Collects text and writes it in large pieces. Throws ClosedPipe when the reader has gone, Io where
// the text cannot be written (a full disk).
class Output {
 public:
  void write(std::string_view text);
  void flush();
  bool is_terminal() const;

 private:
  std::string pending_;
  size_t written_ = 0;
};

// To standard error, at once; failures are ignored.
void write_error_text(std::string_view text);
bool error_is_terminal();
bool input_is_terminal();

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/output.h"

namespace lathe {

void Output::write(std::string_view text) {
  constexpr size_t kPiece = size_t{1} << 16;
  pending_ += text;
  if (pending_.size() >= kPiece) flush();
}

void Output::flush() {
  std::string_view left = pending_;
  while (!left.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, left.data(), left.size());
    if (count >= 0) {
      left.remove_prefix(static_cast<size_t>(count));
      written_ += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      const int problem = errno;
      pending_.clear();  // a later flush must not fail again
      if (problem == EPIPE) throw ClosedPipe();
      fail(ErrorKind::io, "cannot write standard output after {} bytes: {}", written_,
           std::generic_category().message(problem));
    }
  }
  pending_.clear();
}

bool Output::is_terminal() const { return ::isatty(STDOUT_FILENO) == 1; }

bool input_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

bool error_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

void write_error_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace lathe

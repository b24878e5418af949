// SPDX-License-Identifier: MIT
#include "cli/input_lines.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"

namespace lathe::cli {

std::vector<std::string_view> InputLines::next() {
  buffer_.erase(0, used_);
  used_ = 0;
  size_t end = std::string::npos;
  while (!ended_ && (buffer_.size() < chunk_ || end == std::string::npos)) {
    fill();
    end = buffer_.rfind('\n');
  }
  std::vector<std::string_view> lines;
  const std::string_view text = buffer_;
  while (used_ < text.size()) {
    const size_t newline = text.find('\n', used_);
    if (newline == std::string::npos && !ended_) break;
    const size_t stop = std::min(newline, text.size());
    lines.push_back(text.substr(used_, stop - used_));
    used_ = std::min(stop + 1, text.size());
  }
  return lines;
}

const std::string& InputLines::rest() {
  while (!ended_) fill();
  return buffer_;
}

void InputLines::fill() {
  const size_t before = buffer_.size();
  constexpr size_t kRead = size_t{1} << 20;
  buffer_.resize(before + kRead);
  const size_t count = std::fread(buffer_.data() + before, 1, kRead, stdin);
  buffer_.resize(before + count);
  check(std::ferror(stdin) == 0, ErrorKind::io, "standard input cannot be read after {} bytes",
        buffer_.size());
  ended_ = count == 0;
}

}  // namespace lathe::cli

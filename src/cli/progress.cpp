// SPDX-License-Identifier: MIT
#include "cli/progress.h"

#include "base/error.h"
#include "base/output.h"

namespace lathe::cli {

constexpr std::string_view kEmptyLine = "\r\x1b[K";

Progress::Progress(bool all) : all_(all), is_terminal_(error_is_terminal()) {}

Progress::~Progress() { finish(); }

void Progress::show(std::string_view text) {
  if (all_) {
    write_error_text(fmt::format("{}\n", text));
  } else if (is_terminal_) {
    write_error_text(fmt::format("{}{} ...", kEmptyLine, text));
    shown_ = true;
  }
}

void Progress::finish() {
  if (shown_) write_error_text(kEmptyLine);
  shown_ = false;
}

}  // namespace lathe::cli

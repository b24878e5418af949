// SPDX-License-Identifier: MIT
#include "base/json_error.h"

#include <algorithm>

#include "base/error.h"

namespace lathe {

std::string json_error(std::string_view text, size_t byte) {
  const size_t at = std::min(byte - std::min<size_t>(byte, 1), text.size());
  const std::string_view before = text.substr(0, at);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
  return fmt::format(
      "unexpected {} at line {}, column {}",
      at < text.size() ? fmt::format("'{}'", escape(text.substr(at, 1))) : "end of the text",
      1 + std::count(before.begin(), before.end(), '\n'), column);
}

}  // namespace lathe

// SPDX-License-Identifier: MIT
#include "base/os_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace lathe {

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::vector<std::pair<std::string, std::string>> environment_variables(std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view text(*at);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(prefix)) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace lathe

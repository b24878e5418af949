// SPDX-License-Identifier: MIT
// Environment variables of the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

std::optional<std::string> environment_variable(const std::string& name);
// Names and values of the variables that begin with `prefix`, sorted.
std::vector<std::pair<std::string, std::string>> environment_variables(std::string_view prefix);

}  // namespace lathe

// SPDX-License-Identifier: MIT
// The page of `explain --html`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lathe::cli {

// A page that needs no other file, with the explanation as its data. Nothing in the data can become
// markup or code.
std::string explain_page(const nlohmann::ordered_json& explanation);

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// Parses JSON documents from outside.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lathe {

// Parses a JSON document. InvalidModel with the position of the error, or for one nested deeper
// than `max_levels`; `name` is for messages. `max_bytes`: 0 is no limit; a value takes 16 of them.
nlohmann::json parse_json(std::string_view text, std::string_view name, size_t max_bytes = 0,
                          int max_levels = 64);

}  // namespace lathe

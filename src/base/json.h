// SPDX-License-Identifier: MIT
// Parses JSON documents from outside.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lathe {

// Parses a JSON document, nested at most 64 levels deep. InvalidModel with the position of the
// error; `name` is for messages. `max_bytes`: 0 is no limit.
nlohmann::json parse_json(std::string_view text, std::string_view name, size_t max_bytes = 0);

}  // namespace lathe

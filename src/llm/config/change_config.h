// SPDX-License-Identifier: MIT
// Changes to a genai_config.json before it is read: an overlay, other providers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lathe::llm {

// Merges `overlay`, an object of the same form: objects join, null removes, the rest is replaced.
void overlay_config(nlohmann::json& document, std::string_view overlay);
// The same with texts.
std::string overlay_config(std::string_view json, std::string_view overlay);

// The decoder's providers, in any spelling that find_provider() knows. InvalidModel if something
// else lies where their list belongs.
void clear_providers(nlohmann::json& document);
// Behind those that are there; nothing if it is one of them.
void append_provider(nlohmann::json& document, std::string_view provider);
// Appends the provider if it is not there.
void set_provider_option(nlohmann::json& document, std::string_view provider, std::string_view key,
                         std::string_view value);

}  // namespace lathe::llm

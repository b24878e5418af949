// SPDX-License-Identifier: MIT
// Changes a genai_config.json before it is read: overlays and providers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lathe::llm {

// Merges `overlay` as a JSON merge patch (RFC 7386): objects merge, null removes, other values
// replace.
void overlay_config(nlohmann::json& document, std::string_view overlay);
// Merges and returns JSON text.
std::string overlay_config(std::string_view json, std::string_view overlay);

// Change the decoder's providers, in any spelling of find_provider(). InvalidModel if the list has
// another type.
void clear_providers(nlohmann::json& document);
// Appends the provider unless present.
void append_provider(nlohmann::json& document, std::string_view provider);
// Sets an option; appends the provider if missing.
void set_provider_option(nlohmann::json& document, std::string_view provider, std::string_view key,
                         std::string_view value);

}  // namespace lathe::llm

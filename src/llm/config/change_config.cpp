// SPDX-License-Identifier: MIT
#include "llm/config/change_config.h"

#include "llm/config/json_object.h"
#include "llm/config/providers.h"

namespace lathe::llm {
namespace {

bool is_same_provider(std::string_view a, std::string_view b) {
  const Provider* provider = find_provider(a);
  return a == b || (provider != nullptr && provider == find_provider(b));
}

// The decoder's provider list, created if missing.
Json& provider_list(Json& document) {
  Json* at = &document;
  std::string place;
  for (const std::string_view key : {"model", "decoder", "session_options", "provider_options"}) {
    if (at->is_null()) *at = Json::object();
    const JsonObject object(*at, place);
    place = object.place(key);
    at = &(*at)[key];
  }
  if (at->is_null()) *at = Json::array();
  check(at->is_array(), ErrorKind::invalid_model, "'{}' is a {}, expected a list", place,
        at->type_name());
  return *at;
}

// The options of a provider, which is appended if missing.
Json& provider_options(Json& document, std::string_view provider) {
  Json& list = provider_list(document);
  for (Json& entry : list) {
    const Json& known = entry;
    JsonObject(known, "model.decoder.session_options.provider_options");
    for (auto at = entry.begin(); at != entry.end(); ++at) {
      if (is_same_provider(at.key(), provider)) return at.value();
    }
  }
  list.push_back(Json::object());
  return list.back()[provider] = Json::object();
}

}  // namespace

void overlay_config(Json& document, std::string_view overlay) {
  document.merge_patch(parse_json(overlay, "the overlay"));
}

std::string overlay_config(std::string_view json, std::string_view overlay) {
  Json document = parse_json(json, "the configuration");
  overlay_config(document, overlay);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void clear_providers(Json& document) { provider_list(document) = Json::array(); }

void append_provider(Json& document, std::string_view provider) {
  provider_options(document, provider);
}

void set_provider_option(Json& document, std::string_view provider, std::string_view key,
                         std::string_view value) {
  Json& options = provider_options(document, provider);
  if (options.is_null()) options = Json::object();
  JsonObject(options, fmt::format("options of provider '{}'", escape(provider)));
  options[key] = value;
}

}  // namespace lathe::llm

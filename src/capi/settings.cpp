// SPDX-License-Identifier: MIT
// Settings of language models: their configuration, their tokenizer, names of providers.
#include <nlohmann/json.hpp>

#include "base/error_reason.h"
#include "capi/handles.h"
#include "llm/config/providers.h"
#include "llm/model/model_folder.h"
#include "llm/tokenizer/load.h"

namespace lathe::capi {
namespace {

lathe_error* config_tokenizer(const lathe_model_config* config, lathe_tokenizer** out) {
  return guarded([&] {
    demand(out, "tokenizer");
    const lathe_model_config& given = demand(config, "config");
    const MemoryFiles files = files_of(given);
    const Folder beside = llm::ModelFolder(folder_of(given), "", files).beside();
    check(tokenizer::has_tokenizer(beside), ErrorKind::io, "'{}' has no tokenizer",
          escape(beside.place()));
    *out = new lathe_tokenizer{tokenizer::load_tokenizer(beside)};
  });
}

// The member or element that the next part of a path names; null: none.
const nlohmann::json* member(const nlohmann::json& value, const std::string& name) {
  if (value.is_object()) {
    const auto at = value.find(name);
    return at == value.end() ? nullptr : &*at;
  }
  const bool is_index = !name.empty() && name.size() < 9 &&
                        std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  if (!value.is_array() || !is_index) return nullptr;
  const size_t index = std::stoul(name);
  return index < value.size() ? &value[index] : nullptr;
}

lathe_error* get_setting(const lathe_model* model, const char* path, lathe_text_sink sink,
                         void* context) {
  return guarded([&] {
    const nlohmann::json* value = demand(model, "model").model->settings.get();
    std::string_view rest = &demand(path, "path");
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('.'), rest.size());
      value = member(*value, std::string(rest.substr(0, end)));
      check(value != nullptr, {ErrorKind::invalid_argument, reason::kUnknownName},
            "genai_config.json has no '{}'", escape(path));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    const std::string text = value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    sink(context, text.data(), text.size());
  });
}

const char* find_provider(const char* name, const char** target) {
  const llm::Provider* found = name == nullptr ? nullptr : llm::find_provider(name);
  if (found == nullptr) return nullptr;
  if (target != nullptr) *target = found->target.data();  // string literals
  return found->name.data();
}

const char* provider_name(size_t index) {
  const auto all = llm::providers();
  return index < all.size() ? all[index].name.data() : nullptr;
}

}  // namespace

void add_settings(lathe_api& api) {
  api.model_config_tokenizer = config_tokenizer;
  api.model_setting = get_setting;
  api.provider_find = find_provider;
  api.provider_name = provider_name;
}

}  // namespace lathe::capi

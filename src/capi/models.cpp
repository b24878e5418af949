// SPDX-License-Identifier: MIT
// Model configurations and models.
#include <nlohmann/json.hpp>

#include "base/file_map.h"
#include "base/folder.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "capi/handles.h"
#include "llm/config/change_config.h"
#include "llm/config/json_object.h"
#include "llm/model/checkpoint_config.h"
#include "llm/model/choose_target.h"
#include "llm/model/compiled_model.h"
#include "llm/model/hub_cache.h"
#include "llm/tokenizer/load.h"

namespace lathe::capi {
namespace {

using Json = nlohmann::json;

std::string_view text_of(const char* text, std::string_view what) { return &demand(text, what); }

lathe_error* create_config(const char* folder, lathe_model_config** out) {
  return guarded([&] {
    demand(out, "config");
    auto made = std::make_unique<lathe_model_config>();
    if (folder != nullptr) made->folder = folder;
    *out = made.release();
  });
}

// OpenModel applies the changes in order after it has read the file.
lathe_error* overlay(lathe_model_config* config, lathe_text json) {
  return guarded([&] {
    lathe_model_config& handle = demand(config, "config");
    const std::string text(view(json, "json"));
    const Json added = llm::parse_json(text, "the overlay");
    check(added.is_object(), ErrorKind::invalid_argument, "the overlay is a {}, expected an object",
          added.type_name());
    handle.changes.emplace_back([text](Json& document) { llm::overlay_config(document, text); });
  });
}

lathe_error* clear_providers(lathe_model_config* config) {
  return guarded([&] { demand(config, "config").changes.emplace_back(llm::clear_providers); });
}

lathe_error* append_provider(lathe_model_config* config, const char* provider) {
  return guarded([&] {
    const std::string name(text_of(provider, "provider"));
    demand(config, "config").changes.emplace_back([name](Json& document) {
      llm::append_provider(document, name);
    });
  });
}

lathe_error* set_provider_option(lathe_model_config* config, const char* provider, const char* key,
                                 const char* value) {
  return guarded([&] {
    const std::string name(text_of(provider, "provider"));
    const std::string option(text_of(key, "key"));
    const std::string text(text_of(value, "value"));
    demand(config, "config").changes.emplace_back([=](Json& document) {
      llm::set_provider_option(document, name, option, text);
    });
  });
}

lathe_error* add_model_data(lathe_model_config* config, const char* name, const void* data,
                            size_t bytes) {
  return guarded([&] {
    const std::string_view given = view({static_cast<const char*>(data), bytes}, "data");
    demand(config, "config").files[plain_name(text_of(name, "name"))] = MemoryFile::copy_of(given);
  });
}

lathe_error* wrap_model_data(lathe_model_config* config, const char* name, const void* data,
                             size_t bytes, void (*release)(void* context), void* context) {
  return guarded([&] {
    const std::shared_ptr<const void> owner(data, [release, context](const void*) {
      if (release != nullptr) release(context);
    });
    const std::string_view given = view({static_cast<const char*>(data), bytes}, "data");
    demand(config, "config").files[plain_name(text_of(name, "name"))] = {given, owner};
  });
}

lathe_error* remove_model_data(lathe_model_config* config, const char* name) {
  return guarded([&] {
    const std::string_view given = text_of(name, "name");
    auto& files = demand(config, "config").files;
    const auto at = files.find(plain_name(given));
    check(at != files.end(), ErrorKind::invalid_argument, "no file '{}' was added from memory",
          escape(given));
    files.erase(at);
  });
}

lathe_error* set_target(lathe_model_config* config, const char* target) {
  return guarded([&] {
    const std::string_view name = text_of(target, "target");
    static_cast<void>(find_target(name));
    demand(config, "config").target = name == kAutoTarget ? "" : name;
  });
}

lathe_error* set_compute(lathe_model_config* config, const char* compute) {
  return guarded([&] {
    const Compute parsed = parse_compute(text_of(compute, "compute"), "compute");
    demand(config, "config").compute = parsed;
  });
}

lathe_error* set_threads(lathe_model_config* config, int threads) {
  return guarded([&] {
    constexpr int kMostThreads = 1024;
    check(threads >= 0 && threads <= kMostThreads, ErrorKind::invalid_argument,
          "threads is {}, expected 0 to {}", threads, kMostThreads);
    demand(config, "config").threads = threads;
  });
}

lathe_error* set_memory_limit(lathe_model_config* config, int64_t bytes) {
  return guarded([&] {
    check(bytes >= 0, ErrorKind::invalid_argument,
          "the memory limit is {} bytes, expected 0 or more", bytes);
    demand(config, "config").memory_limit = bytes;
  });
}

lathe_error* set_poll(lathe_model_config* config, lathe_poll poll, void* context) {
  return guarded([&] {
    lathe_model_config& handle = demand(config, "config");
    handle.poll = poll;
    handle.poll_context = context;
  });
}

lathe_error* end_tokens(const lathe_model* model, const int32_t** tokens, size_t* count) {
  return guarded([&] {
    const std::vector<int32_t>& ends = demand(model, "model").model->end_tokens;
    demand(tokens, "tokens") = ends.data();
    demand(count, "count") = ends.size();
  });
}

lathe_error* create(const lathe_model_config* config, lathe_model** out) {
  return guarded([&] {
    demand(out, "model");
    const lathe_model_config& given = demand(config, "config");
    const InterruptScope interrupt(given.poll, given.poll_context);
    *out = new lathe_model{std::make_shared<const OpenModel>(given)};
  });
}

lathe_error* get_tokenizer(const lathe_model* model, lathe_tokenizer** out) {
  return guarded([&] {
    demand(out, "tokenizer");
    const OpenModel& opened = *demand(model, "model").model;
    check(opened.tokenizer != nullptr, ErrorKind::io, "'{}' has no tokenizer",
          escape(opened.beside.place()));
    *out = new lathe_tokenizer{opened.tokenizer};
  });
}

lathe_error* get_chat_template(const lathe_model* model, lathe_chat_template** out) {
  return guarded([&] {
    demand(out, "chat");
    const OpenModel& opened = *demand(model, "model").model;
    *out = new lathe_chat_template{templates::ChatTemplates::load(opened.beside), {}};
  });
}

}  // namespace

std::string folder_of(const lathe_model_config& config) {
  return config.files.empty() ? llm::resolve_model(config.folder) : config.folder;
}

MemoryFiles files_of(const lathe_model_config& config) {
  constexpr const char* kName = "genai_config.json";
  MemoryFiles files = config.files;
  if (config.changes.empty()) return files;
  const Folder folder = llm::open_folder(folder_of(config), files);
  Json document = llm::parse_json(llm::genai_config_text(folder), folder.place(kName));
  for (const auto& change : config.changes) change(document);
  files[kName] = MemoryFile::copy_of(document.dump(-1, ' ', false, Json::error_handler_t::replace));
  return files;
}

namespace {

std::shared_ptr<const Json> settings_of(const std::string& path, const MemoryFiles& files) {
  const Folder folder = llm::open_folder(path, files);
  return std::make_shared<const Json>(
      llm::parse_json(llm::genai_config_text(folder), folder.place("genai_config.json")));
}

int threads_of(const lathe_model_config& config, const MemoryFiles& files) {
  if (config.threads > 0) return config.threads;
  return llm::ModelFolder(folder_of(config), "", files).config().threads();
}

}  // namespace

OpenModel::OpenModel(const lathe_model_config& config)
    : files(files_of(config)), pool(threads_of(config, files)) {
  llm::ModelFolder folder(folder_of(config), "", files);
  llm::DecoderOptions options;
  options.pool = &pool;
  options.compute = config.compute;
  options.quantize = config.quantize;
  options.memory_limit = config.memory_limit;
  if (!config.target.empty()) {
    options.target = find_target(config.target);
  } else {
    const llm::TargetChoice choice = choose_target(folder.config(), folder.path());
    if (!choice.warning.empty()) log_warning(choice.warning);
    options.target = choice.target;
    options.encoder_target = choice.encoder;
  }
  target = options.target->name();
  settings = settings_of(folder.path(), files);
  beside = folder.beside();
  auto loading = tokenizer::start_loading_tokenizer(beside);
  decoder = std::make_shared<const llm::Decoder>(std::move(folder), options);
  end_tokens.assign(decoder->config().end_tokens.begin(), decoder->config().end_tokens.end());
  tokenizer = loading.get();
}

void add_models(lathe_api& api) {
  api.model_config_create = create_config;
  api.model_config_overlay = overlay;
  api.model_config_clear_providers = clear_providers;
  api.model_config_append_provider = append_provider;
  api.model_config_set_provider_option = set_provider_option;
  api.model_config_add_model_data = add_model_data;
  api.model_config_wrap_model_data = wrap_model_data;
  api.model_config_remove_model_data = remove_model_data;
  api.model_config_set_target = set_target;
  api.model_config_set_threads = set_threads;
  api.model_config_set_compute = set_compute;
  api.model_config_set_memory_limit = set_memory_limit;
  api.model_config_set_poll = set_poll;
  api.model_end_tokens = end_tokens;
  api.model_config_free = [](lathe_model_config* config) { delete config; };
  api.model_create = create;
  api.model_type = [](const lathe_model* m) { return m->model->decoder->config().type.c_str(); };
  api.model_device = [](const lathe_model* m) { return m->model->target.c_str(); };
  api.model_vocabulary = [](const lathe_model* m) { return m->model->decoder->vocabulary(); };
  api.model_context_length = [](const lathe_model* m) {
    return m->model->decoder->config().context_length;
  };
  api.model_tokenizer = get_tokenizer;
  api.model_chat_template = get_chat_template;
  api.model_free = [](lathe_model* model) { delete model; };
}

}  // namespace lathe::capi

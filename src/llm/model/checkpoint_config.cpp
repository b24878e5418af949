// SPDX-License-Identifier: MIT
#include "llm/model/checkpoint_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_map.h"
#include "base/in_file.h"
#include "import/checkpoint/checkpoint.h"
#include "import/checkpoint/files/gguf_split.h"
#include "llm/config/model_types.h"
#include "llm/search/search_options.h"
#include "llm/template/chat_template.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::json;
using checkpoint::Config;
using checkpoint::GgufFile;

constexpr std::string_view kGenaiConfig = "genai_config.json";
constexpr std::string_view kHfConfig = "config.json";

Json text_json(std::string_view text) {
  return Json::parse(
      Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));  // valid UTF-8
}

// Sampling options by GGUF's names.
Json sampling_of(const GgufFile& gguf) {
  Json search = Json::object();
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"temp", "temperature"}, {"top_k", "top_k"}, {"top_p", "top_p"}, {"min_p", "min_p"}};
  for (const auto& [key, name] : kNames) {
    const auto value = gguf.number(fmt::format("general.sampling.{}", key));
    if (!value) continue;
    search[name] = *value;
    if (std::string_view(name) == "top_k") {
      check(std::abs(*value) <= INT32_MAX, ErrorKind::invalid_model,
            "'general.sampling.{}' is {}, expected an integer", key, *value);
      search[name] = static_cast<int64_t>(*value);
    }
    search["do_sample"] = true;
  }
  return search;
}

void add_tokens(const Config& config, int64_t vocabulary, Json& out) {
  const std::vector<int64_t> ends = config.tokens("eos_token_id", vocabulary);
  if (!ends.empty()) out["eos_token_id"] = ends;
  for (const char* name : {"bos_token_id", "pad_token_id"}) {
    const std::vector<int64_t> tokens = config.tokens(name, 0);
    check(tokens.size() <= 1, ErrorKind::invalid_model, "'{}' has {} tokens, expected one", name,
          tokens.size());
    if (!tokens.empty()) out[name] = tokens.front();
  }
}

Json config_of(const checkpoint::Checkpoint& model, const std::string& file) {
  const Config& config = model.config;
  checkpoint::check_decoder(model);
  const checkpoint::DecoderStyle style =
      in_file(model.place, [&] { return common_style(config, model.weights); });
  const std::string type(model.architecture->type);
  const ModelType* known = find_model_type(type);
  const bool usable = known != nullptr &&
                      (known->kind == ModelKind::decoder ||
                       (known->kind == ModelKind::encoder_decoder && model.architecture->speech));
  const checkpoint::LayerStyle& layer = style.layers.front();
  const int64_t vocabulary = in_file(model.place, [&] { return config.integer("vocab_size", 0); });
  Json out = {{"type", usable ? type : "decoder"},
              {"context_length", style.context},
              {"vocab_size", vocabulary},
              {"decoder",
               {{"filename", file},
                {"hidden_size", style.hidden},
                {"num_attention_heads", layer.heads},
                {"num_key_value_heads", layer.kv_heads},
                {"num_hidden_layers", style.layers.size()},
                {"head_size", layer.head_size}}}};
  if (model.architecture->speech) out["encoder"] = {{"filename", kCheckpointEncoder}};
  in_file(model.place, [&] { add_tokens(config, vocabulary, out); });
  return out;
}

// What Transformers keeps in a tokenizer_config.json.
Json tokenizer_config_of(const GgufFile& gguf) {
  Json config = Json::object();
  if (const auto text = gguf.text("tokenizer.chat_template")) {
    config["chat_template"] = text_json(*text);
  }
  const std::vector<std::string_view> tokens = gguf.texts("tokenizer.ggml.tokens");
  for (const auto& [key, name] : {std::pair{"bos", "bos_token"},
                                  {"eos", "eos_token"},
                                  {"unknown", "unk_token"},
                                  {"padding", "pad_token"}}) {
    const auto id = gguf.integer(fmt::format("tokenizer.ggml.{}_token_id", key));
    if (id && *id < tokens.size()) config[name] = text_json(tokens[*id]);
  }
  return config;
}

// Names a GGUF file that the folder has.
[[noreturn]] void fail_without_model(const Folder& folder) {
  check(!folder.has(kHfConfig), ErrorKind::invalid_model,
        "'{}' has no 'model_type': it is not the configuration of a language model",
        escape(folder.place(kHfConfig)));
  std::string gguf;
  if (is_folder(folder.path())) {
    for (const std::string& name : folder.names()) {
      if (name.ends_with(".gguf")) gguf = fmt::format("; it has '{}': open that", escape(name));
    }
  }
  fail(
      ErrorKind::io,
      "'{}' is not a model: expected a folder with a genai_config.json or a config.json, or a GGUF "
      "file{}",
      escape(folder.place()), gguf);
}

}  // namespace

bool is_checkpoint_file(const std::string& name) {
  return name == kHfConfig || name.ends_with("/config.json") || name.ends_with(".gguf");
}

std::string genai_config_text(const Folder& folder) {
  if (folder.has(kGenaiConfig)) return std::string(folder.open(kGenaiConfig).text);
  Json document;
  const std::string& path = folder.path();
  if (checkpoint::is_gguf_file(path)) {
    const checkpoint::Checkpoint model = checkpoint::open_gguf(path);
    document = {{"model", config_of(model, path.substr(path.rfind('/') + 1))}};
    document["search"] = in_file(path, [&] { return sampling_of(GgufFile(model.gguf.text)); });
  } else {
    if (!checkpoint::is_hf_folder(folder)) fail_without_model(folder);
    document = {{"model", config_of(checkpoint::open_hf_folder(folder), std::string(kHfConfig))}};
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Folder> gguf_tokenizer_folder(const std::string& path) {
  if (!checkpoint::is_gguf_file(path)) return std::nullopt;
  const auto map = FileMap::open(path);
  const Json config = in_file(path, [&] {
    const GgufFile gguf(map->text());
    checkpoint::check_first_part(gguf, path);
    return tokenizer_config_of(gguf);
  });
  // The tokenizer's errors name it.
  const std::string name =
      path.ends_with(".gguf") ? path.substr(path.rfind('/') + 1) : std::string("vocabulary.gguf");
  MemoryFiles files;
  files[name] = {map->text(), map};
  files["tokenizer_config.json"] = MemoryFile::copy_of(config.dump());
  return Folder("", files);
}

templates::ChatTemplates load_chat_templates(const std::string& path) {
  const std::optional<Folder> gguf = gguf_tokenizer_folder(path);
  return gguf ? templates::ChatTemplates::load(*gguf) : templates::ChatTemplates::load(path);
}

}  // namespace lathe::llm

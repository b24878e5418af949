// SPDX-License-Identifier: MIT
// Loads chat templates and special tokens from a model folder.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file_map.h"
#include "base/json.h"
#include "base/lfs_pointer.h"
#include "llm/template/chat_template.h"
#include "llm/template/json.h"

namespace lathe::templates {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxJsonBytes = size_t{64} << 20;
constexpr int kMaxLevels = 200;
constexpr std::string_view kGgufTemplate = "tokenizer.chat_template";
constexpr std::string_view kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

std::string checked_text(std::string_view text, const std::string& path) {
  check_fetched(text, path);
  check(text.size() <= kMaxTemplateBytes, ErrorKind::invalid_model,
        "'{}' has {} bytes, a chat template has at most {}", escape(path), text.size(),
        kMaxTemplateBytes);
  check(!text.empty() && text.find('\0') == std::string_view::npos, ErrorKind::invalid_model,
        "'{}' is {}, expected a chat template", escape(path),
        text.empty() ? "empty" : "not a text");
  return std::string(text);
}

std::string read_text(const Folder& folder, std::string_view name) {
  return checked_text(folder.open(name).text, folder.place(name));
}

Json read_json(const Folder& folder, std::string_view name) {
  const MemoryFile file = folder.open(name);
  const std::string_view text = file.text;
  const std::string path = folder.place(name);
  check(text.size() <= kMaxJsonBytes, ErrorKind::invalid_model,
        "'{}' has {} bytes, at most {} are allowed", escape(path), text.size(), kMaxJsonBytes);
  Json json = lathe::parse_json(text, fmt::format("'{}'", path), 0, kMaxLevels);
  check(json.is_object(), ErrorKind::invalid_model, "'{}' has the type {}, expected an object",
        escape(path), json.type_name());
  return json;
}

// "<s>" or {"content": "<s>", …}
std::string token_text(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return {};
  const auto content = token.find("content");
  return content != token.end() && content->is_string() ? content->get<std::string>() : "";
}

// The GGUF file that a folder in memory describes; empty: none.
std::string gguf_of(const Folder& folder) {
  for (const auto& [name, file] : folder.files()) {
    if (name.ends_with(".gguf")) return name;
  }
  return {};
}

}  // namespace

ChatTemplates ChatTemplates::of(std::string source) {
  ChatTemplates templates;
  templates.templates_["default"] = std::make_shared<ChatTemplate>(std::move(source));
  return templates;
}

ChatTemplates ChatTemplates::load(const std::string& path) {
  if (is_folder(path)) return load(Folder(path));
  check(!path.ends_with(".json"), ErrorKind::invalid_argument,
        "'{}' is JSON, expected a chat template: open its folder, '{}'", escape(path),
        escape(parent_folder(path)));
  ChatTemplates out;
  out.path_ = path;
  out.templates_["default"] =
      std::make_shared<ChatTemplate>(checked_text(FileMap::open(path)->text(), path), escape(path));
  return out;
}

ChatTemplates ChatTemplates::load(const Folder& given) {
  ChatTemplates out;
  out.path_ = given.place();
  const auto add_file = [&](const std::string& name, const Folder& folder, std::string_view file) {
    out.templates_[name] =
        std::make_shared<ChatTemplate>(read_text(folder, file), escape(folder.place(file)));
  };
  const std::string gguf = gguf_of(given);
  const auto add = [&](const std::string& name, const Json& source, const std::string& file) {
    const std::string place = gguf.empty()
                                  ? fmt::format("{}, template '{}'", escape(file), escape(name))
                                  : fmt::format("{}, '{}'", escape(gguf), kGgufTemplate);
    out.templates_[name] = std::make_shared<ChatTemplate>(source.get<std::string>(), place);
  };
  // One template, or a list of named templates.
  const auto add_json = [&](const Json& value, const std::string& file) {
    if (value.is_string()) {
      add("default", value, file);
      return;
    }
    check(value.is_array() || value.is_null(), ErrorKind::invalid_model,
          "'{}': chat_template has the type {}, expected a string or a list of templates",
          escape(file), value.type_name());
    for (const Json& entry : value) {
      const bool is_entry = entry.is_object() && entry.contains("name") &&
                            entry.contains("template") && entry["name"].is_string() &&
                            entry["template"].is_string();
      check(is_entry, ErrorKind::invalid_model,
            "'{}': an entry of chat_template requires the strings 'name' and 'template'",
            escape(file));
      add(entry["name"].get<std::string>(), entry["template"], file);
    }
  };
  constexpr std::string_view kSingle = "chat_template.jinja";
  if (given.has(kSingle)) add_file("default", given, kSingle);
  const Folder more = given.below("additional_chat_templates");
  for (const std::string& name : more.names()) {
    if (!name.ends_with(".jinja")) continue;
    add_file(name.substr(0, name.size() - 6), more, name);
  }
  constexpr std::string_view kProcessor = "chat_template.json";
  if (out.templates_.empty() && given.has(kProcessor)) {
    const Json json = read_json(given, kProcessor);
    if (json.contains("chat_template")) add_json(json["chat_template"], given.place(kProcessor));
  }
  constexpr std::string_view kMap = "special_tokens_map.json";
  constexpr std::string_view kConfig = "tokenizer_config.json";
  const auto add_tokens = [&](const Json& json) {
    for (const auto& [name, token] : json.items()) {
      const bool is_known =
          std::find(std::begin(kTokenNames), std::end(kTokenNames), name) != std::end(kTokenNames);
      if (!is_known && !(name.ends_with("_token") && token.is_string())) continue;
      const std::string text = token_text(token);
      if (!text.empty()) out.special_tokens_[name] = text;
    }
    const auto extra = json.find("extra_special_tokens");
    if (extra == json.end() || !extra->is_object()) return;
    for (const auto& [name, token] : extra->items()) {
      const std::string text = token_text(token);
      if (!text.empty()) out.special_tokens_[name] = text;
    }
  };
  if (given.has(kConfig)) {
    const Json json = read_json(given, kConfig);
    if (out.templates_.empty() && json.contains("chat_template")) {
      add_json(json["chat_template"], given.place(kConfig));
    }
    add_tokens(json);
    if (!json.contains("added_tokens_decoder") && given.has(kMap)) {
      add_tokens(read_json(given, kMap));
    }
  } else if (given.has(kMap)) {
    add_tokens(read_json(given, kMap));
  }
  check(!out.templates_.empty() || gguf.empty(), ErrorKind::invalid_argument,
        "'{}' has no chat template: it has no key '{}'", escape(gguf), kGgufTemplate);
  check(!out.templates_.empty(), ErrorKind::invalid_argument,
        "'{}' has no chat template: neither chat_template.jinja nor one in tokenizer_config.json",
        escape(given.place()));
  return out;
}

}  // namespace lathe::templates

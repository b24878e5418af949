// SPDX-License-Identifier: MIT
// Chat templates and special tokens from the files of a model folder.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file_map.h"
#include "llm/template/chat_template.h"
#include "llm/template/json.h"

namespace lathe::templates {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxJsonBytes = size_t{64} << 20;
constexpr std::string_view kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

std::string read_text(const std::string& path) {
  const auto file = FileMap::open(path);
  check(file->text().size() <= kMaxTemplateBytes, ErrorKind::invalid_model,
        "'{}' has {} bytes; a chat template has at most {}", escape(path), file->text().size(),
        kMaxTemplateBytes);
  return std::string(file->text());
}

Json read_json(const std::string& path) {
  const auto file = FileMap::open(path);
  const std::string_view text = file->text();
  check(text.size() <= kMaxJsonBytes, ErrorKind::invalid_model,
        "'{}' has {} bytes; at most {} are read", escape(path), text.size(), kMaxJsonBytes);
  int depth = 0;
  bool is_deep = false;
  const auto bound = [&](int, Json::parse_event_t event, Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) is_deep |= ++depth > 200;
    if (event == Event::object_end || event == Event::array_end) --depth;
    return !is_deep;
  };
  Json json = Json::parse(text.begin(), text.end(), bound, false);
  check(!is_deep && json.is_object(), ErrorKind::invalid_model, "'{}' is no JSON object",
        escape(path));
  return json;
}

// "<s>" or {"content": "<s>", …}
std::string token_text(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return {};
  const auto content = token.find("content");
  return content != token.end() && content->is_string() ? content->get<std::string>() : "";
}

}  // namespace

ChatTemplates ChatTemplates::of(std::string source) {
  ChatTemplates templates;
  templates.templates_["default"] = std::make_shared<ChatTemplate>(std::move(source));
  return templates;
}

ChatTemplates ChatTemplates::load(const std::string& path) {
  ChatTemplates out;
  out.path_ = path;
  const auto add = [&](const std::string& name, std::string source, const std::string& file) {
    try {
      out.templates_[name] = std::make_shared<ChatTemplate>(std::move(source));
    } catch (Error& error) {
      error.note(fmt::format("template '{}' in {}", escape(name), escape(file)));
      throw;
    }
  };
  // A template by itself, or the list of named ones.
  const auto add_json = [&](const Json& value, const std::string& file) {
    if (value.is_string()) {
      add("default", value.get<std::string>(), file);
      return;
    }
    check(value.is_array() || value.is_null(), ErrorKind::invalid_model,
          "'{}': chat_template is neither a text nor a list of templates", escape(file));
    for (const Json& entry : value) {
      const bool is_entry = entry.is_object() && entry.contains("name") &&
                            entry.contains("template") && entry["name"].is_string() &&
                            entry["template"].is_string();
      check(is_entry, ErrorKind::invalid_model,
            "'{}': an entry of chat_template has no name or no template", escape(file));
      add(entry["name"].get<std::string>(), entry["template"].get<std::string>(), file);
    }
  };
  if (!is_folder(path)) {
    add("default", read_text(path), path);
    return out;
  }
  const std::string single = join_path(path, "chat_template.jinja");
  if (file_exists(single)) add("default", read_text(single), single);
  const std::string folder = join_path(path, "additional_chat_templates");
  if (is_folder(folder)) {
    for (const std::string& name : list_folder(folder)) {
      if (!name.ends_with(".jinja")) continue;
      const std::string file = join_path(folder, name);
      add(name.substr(0, name.size() - 6), read_text(file), file);
    }
  }
  const std::string processor = join_path(path, "chat_template.json");
  if (out.templates_.empty() && file_exists(processor)) {
    const Json json = read_json(processor);
    if (json.contains("chat_template")) add_json(json["chat_template"], processor);
  }
  const std::string map = join_path(path, "special_tokens_map.json");
  const std::string config = join_path(path, "tokenizer_config.json");
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
  if (file_exists(config)) {
    const Json json = read_json(config);
    if (out.templates_.empty() && json.contains("chat_template")) {
      add_json(json["chat_template"], config);
    }
    add_tokens(json);
    if (!json.contains("added_tokens_decoder") && file_exists(map)) add_tokens(read_json(map));
  } else if (file_exists(map)) {
    add_tokens(read_json(map));
  }
  check(!out.templates_.empty(), ErrorKind::invalid_argument,
        "'{}' has no chat template: neither chat_template.jinja nor one in tokenizer_config.json",
        escape(path));
  return out;
}

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
// Renders a model's chat templates over messages, with the results of transformers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "llm/template/ast.h"
#include "llm/template/budget.h"
#include "llm/template/interpreter.h"

namespace lathe::templates {

// One template. Immutable and thread-safe.
class ChatTemplate {
 public:
  // TemplateError for an invalid template. `origin` names its file in errors, already escaped.
  explicit ChatTemplate(std::string source, std::string origin = "the template");

  struct Rendered {
    std::string text;
    std::vector<CharacterRange> generations;
  };
  Rendered render(const Ref<Dict>& variables) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::string origin_;
  std::unique_ptr<const Template> parsed_;
};

// All fields are JSON texts; an empty one is absent.
struct ChatRequest {
  std::string messages;   // an array of objects
  std::string tools;      // an array of JSON schemas
  std::string documents;  // an array of objects
  std::string variables;  // an object: further variables; they override special tokens
  std::string template_name;
  bool add_generation_prompt = false;
  // The field of the last message to continue, usually "content". Empty: a new message begins.
  std::string continue_field;
  Limits limits;
};

// Reads an array of messages, or an object with messages, tools, documents, add_generation_prompt,
// continue_final_message and template_name; other members are variables of the template.
ChatRequest read_chat_request(std::string_view json, const Limits& limits = {});

// The templates of a model folder and its special tokens.
class ChatTemplates {
 public:
  // Loads a template file, or a folder's chat_template.jinja, additional_chat_templates/*.jinja,
  // chat_template.json and tokenizer_config.json, in order of precedence. Io, InvalidModel, or
  // InvalidArgument for a folder without a template.
  static ChatTemplates load(const std::string& path);
  static ChatTemplates load(const Folder& folder);
  // One template without special tokens.
  static ChatTemplates of(std::string source);

  ChatTemplate::Rendered render(const ChatRequest& request) const;
  std::vector<std::string> names() const;

 private:
  const ChatTemplate& choose(const std::string& name, bool has_tools) const;

  std::map<std::string, std::shared_ptr<const ChatTemplate>, std::less<>> templates_;
  std::map<std::string, std::string> special_tokens_;
  std::string path_;
};

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
// The chat templates of a model, rendered over messages as transformers does it.
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

// One template. Thread-safe once made.
class ChatTemplate {
 public:
  explicit ChatTemplate(std::string source);  // TemplateError for what is no template

  struct Rendered {
    std::string text;
    std::vector<CharacterRange> generations;
  };
  Rendered render(const Ref<Dict>& variables) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::unique_ptr<const Template> parsed_;
};

// All JSON texts; empty ones stand for what is not given.
struct ChatRequest {
  std::string messages;   // an array of objects
  std::string tools;      // an array of JSON schemas
  std::string documents;  // an array of objects
  std::string variables;  // an object: further variables, which win over special tokens
  std::string template_name;
  bool add_generation_prompt = false;
  // The field of the last message that goes on: "content" as a rule. Empty: a new turn begins.
  std::string continue_field;
  Limits limits;
};

// An array of messages, or an object with them and tools, documents, add_generation_prompt,
// continue_final_message and template_name; its other members are variables of the template.
ChatRequest read_chat_request(std::string_view json, const Limits& limits = {});

// The templates of a model folder and the special tokens that they see.
class ChatTemplates {
 public:
  // chat_template.jinja, additional_chat_templates/*.jinja, chat_template.json and
  // tokenizer_config.json, the first of them first; a file of its own is a template. Io or
  // InvalidModel, and InvalidArgument where there is none.
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

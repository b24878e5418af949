// SPDX-License-Identifier: MIT
#include "llm/template/chat_template.h"

#include <algorithm>

#include "llm/template/json.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"
#include "llm/template/unicode.h"
#include "llm/template/utf8.h"

namespace lathe::templates {
namespace {

// transformers' mark behind the continued text.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
// Field names of reasoning; templates read the first or the second.
constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

void note_place(TemplateError& error, const std::string& origin) {
  error.note(error.line() > 0 ? fmt::format("in {}, line {}", origin, error.line())
                              : fmt::format("in {}", origin));
}

// Escapes can produce lone surrogates, which UTF-8 cannot encode.
void check_text(std::string_view text) {
  const size_t bad = find_invalid_utf8(text);
  if (bad == std::string_view::npos) return;
  raise(Exception::unicode_encode,
        "'utf-8' codec can't encode character at position {}: surrogates not allowed",
        count_characters(text.substr(0, bad)));
}

Value parse_list(const std::string& text, std::string_view what) {
  if (text.empty()) return {};
  Value value = parse_json(text, what);
  if (value.is_none()) return value;
  check(value.is(Type::list), ErrorKind::invalid_argument, "{} is {}, expected a JSON array", what,
        escape(text, 60));
  for (const Value& item : value.items()) {
    check(item.is(Type::dict), ErrorKind::invalid_argument,
          "{} has the entry {}, expected JSON objects", what, escape(to_json(item, {}), 60));
  }
  return value;
}

Value field(const Value& message, std::string_view name) {
  const Value* value = message.dict().find(name);
  return value == nullptr ? Value() : *value;
}

// Drops fields without a value and passes reasoning under the names that templates read.
Value normal_message(const Value& message) {
  Value reasoning;
  for (const std::string_view name : kReasoningFields) {
    reasoning = field(message, name);
    if (!reasoning.is_none()) break;
  }
  const Ref<Dict> out = make<Dict>();
  if (!reasoning.is_none()) out->set("thinking", reasoning);
  for (const auto& [key, value] : message.dict().entries) {
    if (!value.is_none()) out->set(key, value);
  }
  if (!reasoning.is_none()) out->set("reasoning_content", reasoning);
  return out;
}

class Continuation {
 public:
  Continuation(std::string continue_field, std::vector<Value>& messages, const std::string& source)
      : field_(std::move(continue_field)) {
    check(!messages.empty(), ErrorKind::invalid_argument,
          "a message whose '{}' is continued is required, got no messages", escape(field_));
    const Ref<Dict> last = make<Dict>();
    for (const auto& [key, value] : messages.back().dict().entries) last->set(key, value);
    const Value* content = last->find(field_);
    check(content != nullptr, ErrorKind::invalid_argument,
          "the last message has no '{}' to continue", escape(field_));
    const std::vector<std::string> fields = fields_of(*last, *content);
    const bool is_read = std::any_of(fields.begin(), fields.end(), [&](const std::string& name) {
      return source.find(name) != std::string::npos;
    });
    check(is_read, ErrorKind::invalid_argument,
          "the chat template does not read '{}', so it cannot be continued", escape(field_));
    if (content->is_sequence()) {
      last->set(field_, tagged_parts(content->items()));
    } else {
      text_ = text_of(*content);
      for (const std::string& name : fields) last->set(name, tagged(text_));
    }
    messages.back() = last;
  }

  // Truncates the text after the continued field.
  void finish(std::string& text) const {
    const std::string_view tag = kContinueTag.substr(0, kContinueTag.size() - 1);
    const std::string_view continued = strip_left(strip_right(text_));
    const size_t at = text.rfind(tag);
    check(
        at != std::string::npos && text.find(continued) != std::string::npos,
        ErrorKind::invalid_argument,
        "the chat template does not render the '{}' of the last message, so it cannot be continued",
        escape(field_));
    const bool keeps_space = std::string_view(text).substr(at).starts_with(kContinueTag);
    text.resize(at);
    if (!keeps_space) text.resize(strip_right(text).size());
  }

 private:
  static std::string text_of(const Value& value) {
    check(value.is_string(), ErrorKind::invalid_argument,
          "the continued field is {}, expected a string", escape(to_json(value, {}), 60));
    return std::string(value.text());
  }
  static Value tagged(const std::string& text) {
    return Value::string(text + std::string(kContinueTag));
  }

  // Reasoning has several names: returns all that are set.
  std::vector<std::string> fields_of(const Dict& message, const Value& content) const {
    const bool is_reasoning = std::find(std::begin(kReasoningFields), std::end(kReasoningFields),
                                        field_) != std::end(kReasoningFields);
    if (!is_reasoning) return {field_};
    std::vector<std::string> fields;
    for (const std::string_view name : kReasoningFields) {
      const Value* value = message.find(name);
      if (value != nullptr && equal(*value, content)) fields.emplace_back(name);
    }
    return fields;
  }

  // Continues the last part with a text.
  Value tagged_parts(const std::vector<Value>& parts) {
    std::vector<Value> out = parts;
    for (size_t i = out.size(); i-- > 0;) {
      if (!out[i].is(Type::dict) || out[i].dict().find("text") == nullptr) continue;
      text_ = text_of(*out[i].dict().find("text"));
      const Ref<Dict> part = make<Dict>();
      for (const auto& [key, value] : out[i].dict().entries) part->set(key, value);
      part->set("text", tagged(text_));
      out[i] = part;
      return Value::list(std::move(out));
    }
    fail(ErrorKind::invalid_argument, "no part of the last message's '{}' has a text to continue",
         escape(field_));
  }

  std::string field_;
  std::string text_;
};

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string origin)
    : source_(std::move(source)), origin_(std::move(origin)) {
  try {
    parsed_ = parse_template(source_);
  } catch (TemplateError& error) {
    note_place(error, origin_);
    throw;
  }
}

ChatTemplate::Rendered ChatTemplate::render(const Ref<Dict>& variables) const {
  try {
    Interpreter interpreter(*parsed_, variables);
    Rendered rendered;
    rendered.text = interpreter.render();
    rendered.generations = interpreter.generations();
    check_text(rendered.text);
    return rendered;
  } catch (TemplateError& error) {
    note_place(error, origin_);
    throw;
  }
}

const ChatTemplate& ChatTemplates::choose(const std::string& name, bool has_tools) const {
  const auto find = [&](std::string_view key) {
    const auto found = templates_.find(key);
    return found == templates_.end() ? nullptr : found->second.get();
  };
  const ChatTemplate* chosen = nullptr;
  if (!name.empty()) {
    chosen = find(name);
  } else if (templates_.size() == 1 && find("default") != nullptr) {
    chosen = find("default");
  } else {
    if (has_tools) chosen = find("tool_use");
    if (chosen == nullptr) chosen = find("default");
  }
  if (chosen != nullptr) return *chosen;
  std::string all;
  for (const std::string& known : names()) all += (all.empty() ? "" : ", ") + escape(known);
  fail(ErrorKind::invalid_argument, "'{}' has no chat template '{}', expected one of: {}",
       escape(path_), escape(name.empty() ? "default" : name), all.empty() ? "none" : all);
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> names;
  for (const auto& entry : templates_) names.push_back(entry.first);
  return names;
}

ChatTemplate::Rendered ChatTemplates::render(const ChatRequest& request) const {
  const Budget budget(request.limits);
  const Value messages = parse_list(request.messages, "messages");
  const Value tools = parse_list(request.tools, "tools");
  const ChatTemplate& chosen = choose(request.template_name, !tools.is_none());
  check(!messages.is_none() && !messages.items().empty(), ErrorKind::invalid_argument,
        "the request has {} messages, expected at least one", 0);
  std::vector<Value> normal;
  for (const Value& message : messages.items()) normal.push_back(normal_message(message));
  std::optional<Continuation> continuation;
  if (!request.continue_field.empty()) {
    check(!request.add_generation_prompt, ErrorKind::invalid_argument,
          "add_generation_prompt is true, but the '{}' of the last message is continued",
          escape(request.continue_field));
    continuation.emplace(request.continue_field, normal, chosen.source());
  }
  const Ref<Dict> variables = make<Dict>();
  for (const auto& [name, token] : special_tokens_) variables->set(name, Value::string(token));
  if (!request.variables.empty()) {
    const Value more = parse_json(request.variables, "template variables");
    check(more.is(Type::dict), ErrorKind::invalid_argument,
          "the template variables are {}, expected a JSON object", escape(request.variables, 60));
    for (const auto& [name, value] : more.dict().entries) variables->set(name, value);
  }
  variables->set("messages", Value::list(std::move(normal)));
  variables->set("tools", tools);
  variables->set("documents", parse_list(request.documents, "documents"));
  variables->set("add_generation_prompt", Value::boolean(request.add_generation_prompt));
  ChatTemplate::Rendered rendered = chosen.render(variables);
  if (continuation) {
    continuation->finish(rendered.text);
    const size_t length = count_characters(rendered.text);
    for (CharacterRange& range : rendered.generations) {
      range = {std::min(range.begin, length), std::min(range.end, length)};
    }
  }
  return rendered;
}

}  // namespace lathe::templates

// SPDX-License-Identifier: MIT
// Reads a request from one JSON text, the input of `lathe render-chat`.
#include "llm/template/chat_template.h"
#include "llm/template/json.h"

namespace lathe::templates {
namespace {

bool truth_of(std::string_view name, const Value& value) {
  if (value.is_none()) return false;
  check(value.is(Type::boolean), ErrorKind::invalid_argument, "'{}' is {}, expected true or false",
        name, escape(to_json(value, {}), 60));
  return value.truth();
}

std::string text_of(std::string_view name, const Value& value) {
  check(value.is_string(), ErrorKind::invalid_argument, "'{}' is {}, expected a string", name,
        escape(to_json(value, {}), 60));
  return std::string(value.text());
}

}  // namespace

ChatRequest read_chat_request(std::string_view json, const Limits& limits) {
  const Budget budget(limits);
  const Value value = parse_json(json, "the request");
  ChatRequest request;
  request.limits = limits;
  if (value.is(Type::list)) {
    request.messages = json;
    return request;
  }
  check(value.is(Type::dict), ErrorKind::invalid_argument,
        "the request is {}, expected an array of messages or an object",
        escape(to_json(value, {}), 60));
  const Ref<Dict> variables = make<Dict>();
  for (const auto& [key, item] : value.dict().entries) {
    const std::string_view name = key.text();
    if (name == "messages") {
      request.messages = to_json(item, {});
    } else if (name == "tools") {
      request.tools = to_json(item, {});
    } else if (name == "documents") {
      request.documents = to_json(item, {});
    } else if (name == "add_generation_prompt") {
      request.add_generation_prompt = truth_of(name, item);
    } else if (name == "template_name") {
      request.template_name = text_of(name, item);
    } else if (name == "continue_final_message") {
      // true, or the name of the continued field
      if (item.is_string()) {
        request.continue_field = item.text();
      } else if (truth_of(name, item)) {
        request.continue_field = "content";
      }
    } else {
      variables->set(key, item);
    }
  }
  if (!variables->entries.empty()) request.variables = to_json(variables, {});
  return request;
}

}  // namespace lathe::templates

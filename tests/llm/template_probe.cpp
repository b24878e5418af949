// SPDX-License-Identifier: MIT
// Renders templates for tests in Python: reads an object per line and answers with one per line.
//
//   {"template": TEXT, "variables": {…}}
//   {"path": FOLDER, "messages": JSON TEXT, …: the members of ChatRequest}
// answers {"text": TEXT, "generations": [[begin, end], …]} or
// {"error": EXCEPTION, "message": TEXT, "line": NUMBER}.
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.h"
#include "llm/template/chat_template.h"
#include "llm/template/globals.h"
#include "llm/template/json.h"

namespace {

using namespace lathe;
using namespace lathe::templates;
using templates::Value;

std::string text_of(const Dict& request, std::string_view name) {
  const Value* value = request.find(name);
  return value == nullptr ? "" : std::string(value->text());
}

ChatTemplate::Rendered render(const Dict& request) {
  if (request.find("template") != nullptr) {
    const ChatTemplate chat(text_of(request, "template"));
    const Value* given = request.find("variables");
    return chat.render(given == nullptr ? make<Dict>() : Ref<Dict>(&given->dict()));
  }
  ChatRequest out;
  out.messages = text_of(request, "messages");
  out.tools = text_of(request, "tools");
  out.documents = text_of(request, "documents");
  out.variables = text_of(request, "variables");
  out.template_name = text_of(request, "template_name");
  out.continue_field = text_of(request, "continue_field");
  const Value* prompt = request.find("add_generation_prompt");
  out.add_generation_prompt = prompt != nullptr && prompt->truth();
  return ChatTemplates::load(text_of(request, "path")).render(out);
}

Value answer(const std::string& line) {
  const Ref<Dict> out = make<Dict>();
  try {
    const Budget budget{Limits()};
    const Value request = parse_json(line, "the line");
    const ChatTemplate::Rendered rendered = render(request.dict());
    out->set("text", Value::string(rendered.text));
    std::vector<Value> spans;
    for (const CharacterRange& span : rendered.generations) {
      spans.push_back(Value::list({Value::integer(static_cast<int64_t>(span.begin)),
                                   Value::integer(static_cast<int64_t>(span.end))}));
    }
    out->set("generations", Value::list(std::move(spans)));
  } catch (const TemplateError& error) {
    out->set("error", Value::string(std::string(exception_name(error.exception()))));
    out->set("message", Value::string(error.text()));
    out->set("line", Value::integer(error.line()));
  } catch (const Error& error) {
    out->set("error", Value::string(std::string(error_kind_info(error.kind()).name)));
    out->set("message", Value::string(error.message()));
  }
  return out;
}

}  // namespace

int main() {
  const FixedTime noon(1700000000, 123456);
  std::string line;
  while (std::getline(std::cin, line)) {
    JsonStyle style;
    style.ascii_only = true;
    const std::string text = to_json(answer(line), style) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
}

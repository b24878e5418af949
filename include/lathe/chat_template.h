// SPDX-License-Identifier: MIT
// Chat templates in C++: inline wrappers over the table of lathe.h.
//
//   lathe::ChatTemplate chat("model/");
//   std::string prompt = chat.render(R"({
//     "messages": [{"role": "user", "content": "What is the weather in Rome?"}],
//     "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}],
//     "add_generation_prompt": true})").text;
//
// Templates are Jinja with the environment of Hugging Face Transformers and render the same text.
// A request is JSON: an array of messages, or an object with "messages" and optionally "tools",
// "documents", "add_generation_prompt", "continue_final_message" and "template_name"; other members
// are variables of the template.
//
// Errors throw lathe::Error: InvalidModel for an invalid template; InvalidArgument for an invalid
// request, for an exception that the template raises, and for a limit of memory or time. Any number
// of threads may render a template.
#pragma once

#include "lathe/lathe.hpp"

namespace lathe {
inline namespace v1 {

class ChatTemplate {
 public:
  struct Rendered {
    std::string text;
    // Characters (not bytes) inside {% generation %}: the assistant's answers.
    std::vector<lathe_range> generations;
  };

  // Loads a model folder, a GGUF file or a template file.
  explicit ChatTemplate(const std::string& path) {
    lathe_chat_template* made = nullptr;
    check(api().chat_template_load(path.c_str(), &made));
    handle_.reset(made);
  }
  // Creates a template from its source, without special tokens.
  static ChatTemplate from_source(std::string_view source) {
    lathe_chat_template* made = nullptr;
    check(api().chat_template_create({source.data(), source.size()}, &made));
    return ChatTemplate(made);
  }
  static ChatTemplate from_handle(lathe_chat_template* handle) { return ChatTemplate(handle); }

  // CPU time limit of one rendering in seconds; 0: the default, 0.9. Not while another thread
  // renders.
  void set_time_limit(double seconds) {
    check(api().chat_template_set_time_limit(handle_.get(), seconds));
  }

  Rendered render(std::string_view request) const {
    Rendered out;
    const auto add_text = [](void* to, const char* text, size_t bytes) {
      static_cast<Rendered*>(to)->text.append(text, bytes);
    };
    const auto add_range = [](void* to, lathe_range range) {
      static_cast<Rendered*>(to)->generations.push_back(range);
    };
    check(api().chat_template_render(handle_.get(), {request.data(), request.size()}, add_text,
                                     &out, add_range, &out));
    return out;
  }

 private:
  explicit ChatTemplate(lathe_chat_template* handle) : handle_(handle) {}
  struct Free {
    void operator()(lathe_chat_template* handle) const { api().chat_template_free(handle); }
  };
  std::unique_ptr<lathe_chat_template, Free> handle_;
};

}  // namespace v1
}  // namespace lathe

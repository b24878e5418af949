// SPDX-License-Identifier: MIT
#include "capi/handles.h"

namespace lathe::capi {
namespace {

using templates::ChatTemplates;

lathe_error* load(const char* path, lathe_chat_template** out) {
  return guarded([&] {
    demand(out, "the place for the chat template");
    check(path != nullptr, ErrorKind::invalid_argument, "the path of the {} is NULL",
          "chat template");
    *out = new lathe_chat_template{ChatTemplates::load(path)};
  });
}

lathe_error* create(lathe_text source, lathe_chat_template** out) {
  return guarded([&] {
    demand(out, "the place for the chat template");
    *out = new lathe_chat_template{
        ChatTemplates::of(std::string(view(source, "the source of the chat template")))};
  });
}

lathe_error* render(const lathe_chat_template* handle, lathe_text request, lathe_text_sink text,
                    void* text_context, lathe_range_sink ranges, void* ranges_context) {
  return guarded([&] {
    const ChatTemplates& chat = demand(handle, "the chat template").templates;
    const auto rendered = chat.render(templates::read_chat_request(view(request, "the request")));
    check(text != nullptr, ErrorKind::invalid_argument, "the sink for {} bytes of text is NULL",
          rendered.text.size());
    text(text_context, rendered.text.data(), rendered.text.size());
    if (ranges == nullptr) return;
    for (const auto& [begin, end] : rendered.generations) {
      ranges(ranges_context, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    }
  });
}

}  // namespace

void add_chat_templates(lathe_api& api) {
  api.chat_template_load = load;
  api.chat_template_create = create;
  api.chat_template_render = render;
  api.chat_template_free = [](lathe_chat_template* handle) { delete handle; };
}

}  // namespace lathe::capi

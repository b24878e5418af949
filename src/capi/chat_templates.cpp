// SPDX-License-Identifier: MIT
#include "capi/handles.h"
#include "llm/model/checkpoint_config.h"
#include "llm/model/hub_cache.h"

namespace lathe::capi {
namespace {

using templates::ChatTemplates;

lathe_error* load(const char* path, lathe_chat_template** out) {
  return guarded([&] {
    demand(out, "chat");
    const std::string model = llm::resolve_model(&demand(path, "path"));
    *out = new lathe_chat_template{llm::load_chat_templates(model), {}};
  });
}

lathe_error* create(lathe_text source, lathe_chat_template** out) {
  return guarded([&] {
    demand(out, "chat");
    *out = new lathe_chat_template{ChatTemplates::of(std::string(view(source, "source"))), {}};
  });
}

lathe_error* render(const lathe_chat_template* handle, lathe_text request, lathe_text_sink text,
                    void* text_context, lathe_range_sink ranges, void* ranges_context) {
  return guarded([&] {
    const auto& [chat, limits] = demand(handle, "chat");
    const auto rendered =
        chat.render(templates::read_chat_request(view(request, "request"), limits));
    check(text != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "text");
    text(text_context, rendered.text.data(), rendered.text.size());
    if (ranges == nullptr) return;
    for (const auto& [begin, end] : rendered.generations) {
      ranges(ranges_context, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    }
  });
}

lathe_error* set_time_limit(lathe_chat_template* handle, double seconds) {
  return guarded([&] {
    constexpr double kMaxSeconds = 1e6;
    templates::Limits& limits = demand(handle, "chat").limits;
    check(seconds >= 0 && seconds <= kMaxSeconds, ErrorKind::invalid_argument,
          "the time limit is {} seconds, expected 0 to {}", seconds, kMaxSeconds);
    limits.time =
        seconds == 0
            ? templates::Limits().time
            : std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
  });
}

}  // namespace

void add_chat_templates(lathe_api& api) {
  api.chat_template_load = load;
  api.chat_template_create = create;
  api.chat_template_render = render;
  api.chat_template_set_time_limit = set_time_limit;
  api.chat_template_free = [](lathe_chat_template* handle) { delete handle; };
}

}  // namespace lathe::capi

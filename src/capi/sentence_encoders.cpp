// SPDX-License-Identifier: MIT
// Encoders of texts; and the quantisation of a model's weights.
#include "base/interrupt.h"
#include "capi/handles.h"
#include "llm/model/sentence_encoder.h"

struct lathe_sentence_encoder {
  explicit lathe_sentence_encoder(int threads) : pool(threads) {}
  lathe::ThreadPool pool;
  std::unique_ptr<const lathe::llm::SentenceEncoder> encoder;
};

namespace lathe::capi {
namespace {

lathe_error* set_quantize(lathe_model_config* config, const char* text) {
  return guarded([&] {
    const WeightQuantisation parsed =
        parse_weight_quantisation(&demand(text, "quantize"), "quantize");
    demand(config, "config").quantize = parsed;
  });
}

lathe_error* create(const lathe_model_config* config, lathe_sentence_encoder** out) {
  return guarded([&] {
    demand(out, "encoder");
    const lathe_model_config& given = demand(config, "config");
    check(given.files.empty() && given.changes.empty(), ErrorKind::unsupported,
          "encoders of texts take no files in memory and no changes of the configuration, got {} "
          "and {}",
          given.files.size(), given.changes.size());
    const InterruptScope interrupt(given.poll, given.poll_context);
    auto made = std::make_unique<lathe_sentence_encoder>(given.threads);
    llm::SentenceEncoderOptions options;
    options.runner.target = find_target(given.target.empty() ? kAutoTarget : given.target);
    options.runner.compute = given.compute;
    options.runner.pool = &made->pool;
    options.quantize = given.quantize;
    made->encoder = std::make_unique<const llm::SentenceEncoder>(folder_of(given), options);
    *out = made.release();
  });
}

lathe_error* prompt(const lathe_sentence_encoder* handle, const char* name, lathe_text_sink sink,
                    void* context) {
  return guarded([&] {
    const std::string& text =
        demand(handle, "encoder").encoder->prompt(name == nullptr ? "" : name);
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    sink(context, text.data(), text.size());
  });
}

lathe_error* encode(const lathe_sentence_encoder* handle, const lathe_text* texts, size_t count,
                    lathe_text prompt, const lathe_cancel* cancel, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "embeddings");
    if (count > 0) demand(texts, "texts");
    std::vector<std::string_view> views;
    for (size_t i = 0; i < count; ++i) views.push_back(view(texts[i], fmt::format("texts[{}]", i)));
    Tensor made = demand(handle, "encoder")
                      .encoder->encode(views, view(prompt, "prompt"),
                                       cancel == nullptr ? nullptr : &cancel->token);
    *out = new lathe_tensor{Box(std::move(made))};
  });
}

}  // namespace

void add_sentence_encoders(lathe_api& api) {
  api.model_config_set_quantize = set_quantize;
  api.sentence_encoder_create = create;
  api.sentence_encoder_size = [](const lathe_sentence_encoder* e) { return e->encoder->size(); };
  api.sentence_encoder_max_tokens = [](const lathe_sentence_encoder* e) {
    return e->encoder->max_tokens();
  };
  api.sentence_encoder_prompt = prompt;
  api.sentence_encoder_encode = encode;
  api.sentence_encoder_free = [](lathe_sentence_encoder* encoder) { delete encoder; };
}

}  // namespace lathe::capi

// SPDX-License-Identifier: MIT
// Generation with a language model.
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "capi/devices.h"

namespace lathe::capi {
namespace {

using llm::Token;

lathe_error* create_params(const lathe_model* model, lathe_generator_params** out) {
  return guarded([&] {
    demand(out, "out");
    *out = new lathe_generator_params{demand(model, "model").model->decoder->config().search};
  });
}

lathe_error* set_param(lathe_generator_params* params, const char* name, lathe_text value) {
  return guarded([&] {
    set_search_option(demand(params, "params").search, &demand(name, "name"), view(value, "value"));
  });
}

lathe_error* get_param(const lathe_generator_params* params, const char* name, lathe_text_sink sink,
                       void* context) {
  return guarded([&] {
    const nlohmann::json all = search_options_json(demand(params, "params").search);
    std::string key = &demand(name, "name");
    std::ranges::replace(key, '-', '_');
    std::vector<std::string_view> names;
    for (const search::SearchOptionInfo& option : search::search_options())
      names.push_back(option.name);
    check(std::ranges::find(names, key) != names.end(), ErrorKind::invalid_argument,
          "unknown search option '{}'{}", escape(key), did_you_mean(key, names));
    check(all.contains(key), ErrorKind::invalid_argument,
          "search option '{}' has no effect and no value", key);
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    const std::string text = all[key].dump();
    sink(context, text.data(), text.size());
  });
}

lathe_error* set_poll(lathe_generator_params* params, lathe_poll poll, void* context) {
  return guarded([&] {
    lathe_generator_params& handle = demand(params, "params");
    handle.poll = poll;
    handle.poll_context = context;
  });
}

lathe_error* set_guidance(lathe_generator_params*, const char* type, const char*, int) {
  return guarded([&] {
    fail(ErrorKind::unsupported, "guidance by a '{}' is not supported",
         type == nullptr ? "NULL" : escape(type));
  });
}

lathe_error* set_adapter(lathe_generator*, const char* name) {
  return guarded([&] {
    fail(ErrorKind::unsupported, "adapters are not supported: '{}' cannot be made active",
         name == nullptr ? "NULL" : escape(name));
  });
}

lathe_error* create(const lathe_model* model, const lathe_generator_params* params,
                    lathe_generator** out) {
  return guarded([&] {
    demand(out, "generator");
    const auto& opened = demand(model, "model").model;
    *out = params == nullptr
               ? new lathe_generator(opened, opened->decoder->config().search, nullptr, nullptr)
               : new lathe_generator(opened, params->search, params->poll, params->poll_context);
  });
}

// InvalidArgument if the encoder's inputs are set and a prompt has no tokens.
void check_batch(const lathe_generator& handle) {
  const size_t count = handle.generator.prompts();
  for (size_t i = 0; handle.encodes && i < count; ++i) {
    check(!handle.generator.tokens(i).empty(), ErrorKind::invalid_argument,
          "prompt {} of {} has encoder inputs but no tokens", i, count);
  }
}

lathe_error* next_token(lathe_generator* generator, const lathe_cancel* cancel) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    check_batch(handle);
    check(!handle.generator.done(), ErrorKind::invalid_argument,
          "all of {} prompts are done or have no tokens", handle.generator.prompts());
    std::vector<size_t>& before = handle.lengths;
    before.clear();
    for (size_t i = 0; i < handle.generator.prompts(); ++i) {
      before.push_back(handle.generator.tokens(i).size());
    }
    handle.outputs.clear();
    const auto list_next = [&] {
      handle.next.clear();
      for (size_t i = 0; i < before.size(); ++i) {
        const auto tokens = handle.generator.tokens(i);
        handle.next.push_back(tokens.size() > before[i] ? tokens.back() : -1);
      }
    };
    const InterruptScope interrupt(handle.poll, handle.poll_context);
    try {
      handle.generator.generate_next_token(cancel == nullptr ? nullptr : &cancel->token);
    } catch (...) {
      list_next();  // prompts before the failed one may have a token
      throw;
    }
    list_next();
  });
}

lathe_error* next_tokens(lathe_generator* generator, const int32_t** tokens, size_t* count) {
  return guarded([&] {
    const lathe_generator& handle = demand(generator, "generator");
    demand(tokens, "tokens") = handle.next.data();
    demand(count, "count") = handle.next.size();
  });
}

lathe_error* rewind(lathe_generator* generator, size_t prompt, size_t length) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    handle.outputs.clear();
    handle.generator.rewind_to(prompt, length);
  });
}

// A prompt that has not run has one sequence of zeros.
size_t logit_sequences(const lathe_generator& handle, size_t prompt) {
  const auto width = static_cast<size_t>(handle.model->decoder->vocabulary());
  return std::max<size_t>(handle.generator.all_logits(prompt).size() / width, 1);
}

Tensor logits_of(lathe_generator& handle, const lathe_cancel* cancel) {
  check_batch(handle);
  const InterruptScope interrupt(handle.poll, handle.poll_context);
  handle.generator.compute_logits(cancel == nullptr ? nullptr : &cancel->token);
  const auto width = static_cast<size_t>(handle.model->decoder->vocabulary());
  size_t sequences = 0;
  for (size_t i = 0; i < handle.generator.prompts(); ++i) sequences += logit_sequences(handle, i);
  Tensor all(ElementType::f32, {static_cast<int64_t>(sequences), 1, static_cast<int64_t>(width)});
  auto* to = all.as<float>();
  for (size_t i = 0; i < handle.generator.prompts(); ++i) {
    std::ranges::copy(handle.generator.all_logits(i), to);
    to += logit_sequences(handle, i) * width;
  }
  return all;
}

lathe_error* get_logits(lathe_generator* generator, const lathe_cancel* cancel,
                        lathe_tensor** out) {
  return guarded([&] {
    demand(out, "logits");
    *out = new lathe_tensor{Box{logits_of(demand(generator, "generator"), cancel)}};
  });
}

lathe_error* get_step_logits(lathe_generator* generator, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "logits");
    lathe_generator& handle = demand(generator, "generator");
    check_batch(handle);
    const InterruptScope interrupt(handle.poll, handle.poll_context);
    std::vector<Tensor> parts;
    for (size_t i = 0; i < handle.generator.prompts(); ++i) {
      parts.push_back(handle.generator.step_logits(i));
      check(parts[i].dims()[1] == parts[0].dims()[1], ErrorKind::invalid_argument,
            "the last step has {} tokens of prompt {} and {} of prompt 0", parts[i].dims()[1], i,
            parts[0].dims()[1]);
    }
    check(!parts.empty(), ErrorKind::invalid_argument, "logits require a prompt, got {} prompts",
          parts.size());
    *out = new lathe_tensor{Box{llm::join_along(parts, 0)}};
  });
}

lathe_error* set_logits(lathe_generator* generator, const lathe_tensor* given) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    const Box& box = host_box(given, "logits");
    const InterruptScope interrupt(handle.poll, handle.poll_context);
    handle.generator.compute_logits();
    size_t sequences = 0;
    for (size_t i = 0; i < handle.generator.prompts(); ++i) sequences += logit_sequences(handle, i);
    const Dims expected = {static_cast<int64_t>(sequences), 1, handle.model->decoder->vocabulary()};
    check(box.is_tensor() && box.tensor().type() == ElementType::f32 &&
              std::ranges::equal(box.tensor().dims(), expected),
          ErrorKind::invalid_argument, "the logits are {}, expected {}",
          box.is_tensor() ? to_string(box.tensor().type(), box.tensor().dims()) : "not a tensor",
          to_string(ElementType::f32, expected));
    const Tensor dense = box.tensor().dense();
    const auto* from = dense.as<float>();
    for (size_t i = 0; i < handle.generator.prompts(); ++i) {
      const size_t count = logit_sequences(handle, i) * static_cast<size_t>(expected[2]);
      // Logits of finished prompts are present but unused.
      if (handle.generator.waiting(i)) handle.generator.set_logits(i, {from, count});
      from += count;
    }
  });
}

bool names_logits(const lathe_generator& handle, std::string_view name) {
  const llm::Names& names = handle.model->decoder->config().decoder.outputs;
  return name == "logits" || name == llm::name_of(names, "logits", "logits");
}

lathe_error* get_output(lathe_generator* generator, const char* name, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    lathe_generator& handle = demand(generator, "generator");
    const std::string_view noun = &demand(name, "name");
    if (names_logits(handle, noun)) {
      *out = new lathe_tensor{Box{logits_of(handle, nullptr)}};
      return;
    }
    check_batch(handle);
    const InterruptScope interrupt(handle.poll, handle.poll_context);
    *out = new lathe_tensor{Box{join_outputs(handle, std::string(noun))}};
  });
}

lathe_error* get_output_of(lathe_generator* generator, size_t prompt, const char* name,
                           lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    lathe_generator& handle = demand(generator, "generator");
    const std::string_view noun = &demand(name, "name");
    const size_t count = handle.generator.prompts();
    check(prompt < count, ErrorKind::invalid_argument, "prompt {} is out of range for {} prompts",
          prompt, count);
    check_batch(handle);
    const InterruptScope interrupt(handle.poll, handle.poll_context);
    if (!names_logits(handle, noun)) {
      const Tensor output = handle.generator.output(prompt, std::string(noun));
      *out = new lathe_tensor{Box{held_alone(output) ? output : output.clone()}};
      return;
    }
    handle.generator.compute_logits();
    const std::span<const float> own = handle.generator.all_logits(prompt);
    check(!own.empty(), ErrorKind::invalid_argument,
          "prompt {} has run no tokens and has no output '{}'", prompt, escape(noun));
    const int64_t width = handle.model->decoder->vocabulary();
    Tensor logits(ElementType::f32, {std::ssize(own) / width, 1, width});
    std::ranges::copy(own, logits.as<float>());
    *out = new lathe_tensor{Box{std::move(logits)}};
  });
}

lathe_error* set_hook(lathe_generator* generator, lathe_logits_hook hook, void* context) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    if (hook == nullptr) {
      handle.generator.set_hook({});
      return;
    }
    handle.generator.set_hook([hook, context](size_t prompt, std::span<const Token> tokens,
                                              std::span<float> logits) {
      const int result =
          hook(context, prompt, tokens.data(), tokens.size(), logits.data(), logits.size());
      check(result == 0, ErrorKind::invalid_argument,
            "the hook returned {} for prompt {} after {} tokens", result, prompt, tokens.size());
    });
  });
}

void gather_outputs(lathe_generator& handle) {
  if (!handle.outputs.empty()) return;
  for (size_t i = 0; i < handle.generator.prompts(); ++i) {
    for (llm::Output& output : handle.generator.outputs(i)) {
      handle.outputs.emplace_back(i, std::move(output));
    }
  }
}

lathe_error* sequence_count(lathe_generator* generator, size_t* count) {
  return guarded([&] {
    gather_outputs(demand(generator, "generator"));
    demand(count, "count") = generator->outputs.size();
  });
}

lathe_error* get_sequence(lathe_generator* generator, size_t index, lathe_sequence* out) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    const auto& [prompt, output] = output_of(handle, index);
    lathe_sequence all = known(&demand(out, "sequence"));
    all.size = out->size;
    all.prompt = prompt;
    all.tokens = output.tokens.data();
    all.token_count = output.tokens.size();
    all.prompt_tokens = output.prompt;
    all.text = {output.text.data(), output.text.size()};
    all.reason = static_cast<lathe_finish_reason>(output.reason);
    all.score = output.score;
    std::memcpy(out, &all, std::min(out->size, sizeof all));
  });
}

// Passes the answer piece by piece to `write`; false ends the generation.
void generate(const lathe_model* model, const lathe_generator_params* params, lathe_text prompt,
              const lathe_cancel* cancel, const std::function<bool(std::string_view)>& write) {
  const OpenModel& opened = *demand(model, "model").model;
  check(opened.tokenizer != nullptr, ErrorKind::io, "'{}' has no tokenizer",
        escape(opened.beside.place()));
  const std::string_view text = view(prompt, "prompt");
  const tokenizer::Encoding encoding = opened.tokenizer->encode(text);
  check(!encoding.ids.empty(), ErrorKind::invalid_argument, "the prompt of {} bytes has no tokens",
        text.size());
  const search::SearchOptions search =
      params == nullptr ? opened.decoder->config().search : params->search;
  check(search.num_beams == 1 && search.num_return_sequences == 1, ErrorKind::invalid_argument,
        "streaming requires one sequence: num_beams is {} and num_return_sequences is {}",
        search.num_beams, search.num_return_sequences);
  const InterruptScope interrupt(params == nullptr ? nullptr : params->poll,
                                 params == nullptr ? nullptr : params->poll_context);
  llm::Generator generator(opened.decoder, opened.tokenizer);
  generator.add(std::vector<Token>(encoding.ids.begin(), encoding.ids.end()), search);
  size_t written = 0;
  for (bool more = true; more;) {
    more = generator.generate_next_token(cancel == nullptr ? nullptr : &cancel->token);
    const std::string_view all = generator.text(0);
    check(all.size() == written || write(all.substr(written)), ErrorKind::interrupted,
          "the text callback ended the generation after {} bytes", all.size());
    written = all.size();
  }
}

lathe_error* generate_to_sink(const lathe_model* model, const lathe_generator_params* params,
                              lathe_text prompt, const lathe_cancel* cancel, lathe_text_sink sink,
                              void* context) {
  return guarded([&] {
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    generate(model, params, prompt, cancel, [&](std::string_view piece) {
      sink(context, piece.data(), piece.size());
      return true;
    });
  });
}

lathe_error* generate_pieces(const lathe_model* model, const lathe_generator_params* params,
                             lathe_text prompt, const lathe_cancel* cancel,
                             lathe_text_callback callback, void* context) {
  return guarded([&] {
    check(callback != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "callback");
    generate(model, params, prompt, cancel, [&](std::string_view piece) {
      return callback(context, piece.data(), piece.size()) == 0;
    });
  });
}

}  // namespace

void check_tokens(const lathe_generator& handle, std::span<const Token> tokens) {
  const int64_t width = handle.model->decoder->vocabulary();
  for (const Token token : tokens) {
    check(token >= 0 && token < width, ErrorKind::invalid_argument,
          "token {} is outside the vocabulary of {} tokens", token, width);
  }
}

Tensor join_outputs(lathe_generator& handle, const std::string& name) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < handle.generator.prompts(); ++i) {
    parts.push_back(handle.generator.output(i, name));
    check(parts[i].rank() > 0 && std::ranges::equal(parts[i].dims(), parts[0].dims()),
          ErrorKind::invalid_argument,
          "output '{}' is {} for prompt {} and {} for prompt 0: expected equal shapes; use "
          "generator_get_output_of",
          escape(name), to_string(parts[i].type(), parts[i].dims()), i,
          to_string(parts[0].type(), parts[0].dims()));
  }
  check(!parts.empty(), ErrorKind::invalid_argument,
        "output '{}' requires a prompt, got {} prompts", escape(name), parts.size());
  return llm::join_along(parts, 0);
}

const std::pair<size_t, llm::Output>& output_of(lathe_generator& handle, size_t index) {
  gather_outputs(handle);
  check(index < handle.outputs.size(), ErrorKind::invalid_argument,
        "sequence {} is out of range for {} sequences", index, handle.outputs.size());
  return handle.outputs[index];
}

void add_generators(lathe_api& api) {
  api.generator_params_create = create_params;
  api.generator_params_set_poll = set_poll;
  api.generator_params_set = set_param;
  api.generator_params_get = get_param;
  api.generator_params_set_guidance = set_guidance;
  api.generator_params_free = [](lathe_generator_params* params) { delete params; };
  api.generator_create = create;
  api.generator_prompt_count = [](const lathe_generator* g) { return g->generator.prompts(); };
  api.generator_token_count = [](const lathe_generator* g, size_t prompt) {
    return prompt < g->generator.prompts() ? g->generator.tokens(prompt).size() : size_t{0};
  };
  api.generator_is_done = [](const lathe_generator* g) { return g->generator.done() ? 1 : 0; };
  api.generator_generate_next_token = next_token;
  api.generator_next_tokens = next_tokens;
  api.generator_rewind_to = rewind;
  api.generator_get_logits = get_logits;
  api.generator_get_step_logits = get_step_logits;
  api.generator_set_logits = set_logits;
  api.generator_get_output = get_output;
  api.generator_get_output_of = get_output_of;
  api.generator_set_hook = set_hook;
  api.generator_sequence_count = sequence_count;
  api.generator_sequence = get_sequence;
  api.generator_set_active_adapter = set_adapter;
  api.generator_free = [](lathe_generator* generator) { delete generator; };
  api.model_generate = generate_to_sink;
  api.model_generate_pieces = generate_pieces;
}

}  // namespace lathe::capi

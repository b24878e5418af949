// SPDX-License-Identifier: MIT
// Prompts of a generator: added with options, forked, saved, restored, read.
#include "capi/devices.h"
#include "llm/model/prompt_file.h"
#include "llm/model/sequence_tensors.h"

namespace lathe::capi {
namespace {

using llm::Token;

const search::SearchOptions& options_of(const lathe_generator& handle,
                                        const lathe_generator_params* params) {
  return params == nullptr ? handle.search : params->search;
}

lathe_error* add_prompt(lathe_generator* generator, const lathe_generator_params* params,
                        const int32_t* tokens, size_t count, size_t* prompt) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    demand(prompt, "prompt");
    check(count > 0, ErrorKind::invalid_argument, "got {} tokens for prompt {}, expected 1 or more",
          count, handle.generator.prompts());
    check(!handle.encodes, ErrorKind::invalid_argument,
          "cannot add prompt {}: the encoder's inputs are set for {} prompts",
          handle.generator.prompts(), handle.generator.prompts());
    demand(tokens, "tokens");
    check_tokens(handle, {tokens, count});
    handle.outputs.clear();
    *prompt = handle.generator.add(std::span(tokens, count), options_of(handle, params));
  });
}

Tensor tokens_of(const lathe_generator& handle) {
  const size_t prompts = handle.generator.prompts();
  check(prompts > 0, ErrorKind::invalid_argument,
        "the generator has {} prompts, expected 1 or more", prompts);
  const size_t length = handle.generator.tokens(0).size();
  Tensor all(ElementType::i64, {static_cast<int64_t>(prompts), static_cast<int64_t>(length)});
  for (size_t i = 0; i < prompts; ++i) {
    const std::span<const Token> own = handle.generator.tokens(i);
    check(own.size() == length, ErrorKind::invalid_argument,
          "prompt {} has {} tokens, prompt 0 has {}: expected equal lengths", i, own.size(),
          length);
    std::ranges::copy(own, all.as<int64_t>() + i * length);
  }
  return all;
}

lathe_error* get_input(lathe_generator* generator, const char* name, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "tensor");
    lathe_generator& handle = demand(generator, "generator");
    const std::string noun = &demand(name, "name");
    const llm::Names& names = handle.model->decoder->config().decoder.inputs;
    if (noun == "input_ids" || noun == llm::name_of(names, "input_ids", "input_ids")) {
      *out = new lathe_tensor{Box{tokens_of(handle)}};
      return;
    }
    const auto& states = handle.model->decoder->layout().states();
    check(std::ranges::find(states, noun, &SequenceState::past) != states.end(),
          ErrorKind::invalid_argument, "input '{}' is not retained, expected the tokens or a state",
          escape(noun));
    *out = new lathe_tensor{Box{join_outputs(handle, noun)}};
  });
}

lathe_error* get_sampled_token(lathe_generator* generator, size_t sequence, size_t token,
                               lathe_sampled_token* out) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    lathe_sampled_token all = known(&demand(out, "sampled"));
    const llm::Output& output = output_of(handle, sequence).second;
    check(token < output.choices.size(), ErrorKind::invalid_argument,
          "generated token {} of sequence {} is out of range for {} recorded log-probabilities{}",
          token, sequence, output.choices.size(),
          output.choices.empty() ? ": set the option 'log_probabilities'" : "");
    const search::Choice& choice = output.choices[token];
    handle.most_likely.clear();
    for (const auto& [id, log_probability] : choice.most_likely) {
      handle.most_likely.push_back({id, log_probability});
    }
    all.size = out->size;
    all.log_probability = choice.log_probability;
    all.most_likely = handle.most_likely.data();
    all.most_likely_count = handle.most_likely.size();
    std::memcpy(out, &all, std::min(out->size, sizeof all));
  });
}

lathe_error* fork(lathe_generator* generator, size_t prompt, const lathe_generator_params* params,
                  size_t* number) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    demand(number, "fork");
    const search::SearchOptions options =
        params == nullptr ? handle.generator.options(prompt) : params->search;
    handle.outputs.clear();
    *number = handle.generator.add(handle.generator.state(prompt), options);
  });
}

lathe_error* save(const lathe_generator* generator, size_t prompt, lathe_text_sink sink,
                  void* context) {
  return guarded([&] {
    const lathe_generator& handle = demand(generator, "generator");
    const std::vector<std::byte> bytes = save_prompt(handle.generator.state(prompt));
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    sink(context, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

lathe_error* restore(lathe_generator* generator, const lathe_generator_params* params,
                     const void* data, size_t bytes, size_t* prompt) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    demand(prompt, "prompt");
    const std::string_view text = view({static_cast<const char*>(data), bytes}, "data");
    llm::PromptState state =
        llm::restore_prompt(*handle.model->decoder, std::as_bytes(std::span(text)));
    handle.outputs.clear();
    *prompt = handle.generator.add(std::move(state), options_of(handle, params));
  });
}

lathe_error* export_all(const lathe_generator* generator, size_t prompt, lathe_state_sink sink,
                        void* context) {
  return guarded([&] {
    const lathe_generator& handle = demand(generator, "generator");
    const llm::PromptState state = handle.generator.state(prompt);
    std::vector<llm::StateTensor> states = export_states(state.sequence);
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    const auto name = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    for (llm::StateTensor& each : states) {
      auto tensor = std::make_unique<lathe_tensor>(lathe_tensor{Box{std::move(each.tensor)}});
      sink(context, name(each.past), name(each.present), tensor.release());
    }
  });
}

lathe_error* set_token_mask(lathe_generator* generator, size_t prompt, const uint32_t* words,
                            size_t count) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    if (count > 0) demand(words, "words");
    handle.generator.set_token_mask(prompt, {words, count});
  });
}

std::vector<int64_t> position_ids_of(const lathe_tensor* given, int64_t count) {
  if (given == nullptr) return {};
  const auto fits = [&](const Tensor& tensor) {
    return tensor.type() == ElementType::i64 &&
           (tensor.dims() == Dims{count} || tensor.dims() == Dims{3, count});
  };
  static_cast<void>(host_box(given, "position_ids"));
  check(given->box.is_tensor() && fits(given->box.tensor()), ErrorKind::invalid_argument,
        "position_ids is {}, expected i64[{}] or [3, {}]",
        given->box.is_tensor() ? to_string(given->box.tensor().type(), given->box.tensor().dims())
                               : "not a tensor",
        count, count);
  const Tensor dense = given->box.tensor().dense();
  return {dense.as<int64_t>(), dense.as<int64_t>() + dense.count()};
}

lathe_error* append_embeddings(lathe_generator* generator, size_t prompt,
                               const lathe_tensor* embeddings, const lathe_tensor* position_ids,
                               uint64_t hash) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    const Box& box = host_box(embeddings, "embeddings");
    check(box.is_tensor(), ErrorKind::invalid_argument,
          "the embeddings for prompt {} are not a tensor", prompt);
    const size_t count = handle.generator.prompts();
    check(prompt <= count, ErrorKind::invalid_argument, "prompt {} is out of range for {} prompts",
          prompt, count);
    llm::PromptPart part{.embeddings = llm::make_embeddings(box.tensor().clone())};
    if (hash != 0) part.embeddings.hash = hash;
    const std::vector<int64_t> explicit_ids =
        position_ids_of(position_ids, part.embeddings.count());
    check_embeddings(part.embeddings, handle.model->decoder->limits());
    part.positions = explicit_ids;
    handle.outputs.clear();
    if (prompt == count) {
      handle.generator.add_parts({&part, 1}, handle.search);
    } else {
      handle.generator.append_parts(prompt, {&part, 1});
    }
  });
}

}  // namespace

void add_sequences(lathe_api& api) {
  api.generator_add_prompt = add_prompt;
  api.generator_get_input = get_input;
  api.generator_sampled_token = get_sampled_token;
  api.generator_fork = fork;
  api.generator_save = save;
  api.generator_restore = restore;
  api.generator_export = export_all;
  api.generator_set_token_mask = set_token_mask;
  api.generator_append_embeddings = append_embeddings;
}

}  // namespace lathe::capi

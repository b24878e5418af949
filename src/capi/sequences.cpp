// SPDX-License-Identifier: MIT
// Prompts of a generator: with options of their own, forked, saved, restored, looked into.
#include "capi/handles.h"
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
    lathe_generator& handle = demand(generator, "the generator");
    demand(prompt, "the place for the prompt's number");
    check(count > 0, ErrorKind::invalid_argument, "prompt {} is given {} tokens",
          handle.generator.prompts(), count);
    check(!handle.encodes, ErrorKind::invalid_argument,
          "prompt {} is given tokens, and the encoder's inputs are those of {} prompts",
          handle.generator.prompts(), handle.generator.prompts());
    demand(tokens, "the list of tokens");
    check_tokens(handle, {tokens, count});
    handle.outputs.clear();
    *prompt = handle.generator.add(std::span(tokens, count), options_of(handle, params));
  });
}

Tensor tokens_of(const lathe_generator& handle) {
  const size_t prompts = handle.generator.prompts();
  check(prompts > 0, ErrorKind::invalid_argument, "tokens are asked of a generator with {} prompts",
        prompts);
  const size_t rows = handle.generator.tokens(0).size();
  Tensor all(ElementType::i64, {static_cast<int64_t>(prompts), static_cast<int64_t>(rows)});
  for (size_t i = 0; i < prompts; ++i) {
    const std::span<const Token> own = handle.generator.tokens(i);
    check(own.size() == rows, ErrorKind::invalid_argument,
          "prompt {} has {} tokens and the first {}: unequal prompts have no common tensor", i,
          own.size(), rows);
    std::ranges::copy(own, all.as<int64_t>() + i * rows);
  }
  return all;
}

lathe_error* get_input(lathe_generator* generator, const char* name, lathe_tensor** out) {
  return guarded([&] {
    demand(out, "the place for the input");
    lathe_generator& handle = demand(generator, "the generator");
    const std::string noun = &demand(name, "the input's name");
    const llm::Names& names = handle.model->decoder->config().decoder.inputs;
    if (noun == "input_ids" || noun == llm::name_of(names, "input_ids", "input_ids")) {
      *out = new lathe_tensor{Box{tokens_of(handle)}};
      return;
    }
    const auto& states = handle.model->decoder->layout().states();
    check(std::ranges::find(states, noun, &SequenceState::past) != states.end(),
          ErrorKind::invalid_argument, "input '{}' is not kept: tokens and states are",
          escape(noun));
    *out = new lathe_tensor{Box{join_outputs(handle, noun)}};
  });
}

lathe_error* get_choice(lathe_generator* generator, size_t sequence, size_t token,
                        lathe_choice* out) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "the generator");
    lathe_choice all = known(&demand(out, "the place for the choice"));
    const llm::Output& output = output_of(handle, sequence).second;
    check(token < output.choices.size(), ErrorKind::invalid_argument,
          "the log-probability of generated token {} of sequence {} is asked for, {} are known{}",
          token, sequence, output.choices.size(),
          output.choices.empty() ? ": set log_probabilities" : "");
    const search::Choice& choice = output.choices[token];
    handle.most_likely.clear();
    for (const auto& [id, log_probability] : choice.most_likely) {
      handle.most_likely.push_back({id, log_probability});
    }
    all.size = out->size;
    all.log_probability = choice.log_probability;
    all.most_likely = handle.most_likely.data();
    all.likeliest_count = handle.most_likely.size();
    std::memcpy(out, &all, std::min(out->size, sizeof all));
  });
}

lathe_error* fork(lathe_generator* generator, size_t prompt, const lathe_generator_params* params,
                  size_t* number) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "the generator");
    demand(number, "the place for the fork's number");
    const search::SearchOptions options =
        params == nullptr ? handle.generator.options(prompt) : params->search;
    handle.outputs.clear();
    *number = handle.generator.add(handle.generator.state(prompt), options);
  });
}

lathe_error* save(const lathe_generator* generator, size_t prompt, lathe_text_sink sink,
                  void* context) {
  return guarded([&] {
    const lathe_generator& handle = demand(generator, "the generator");
    const std::vector<std::byte> bytes = save_prompt(handle.generator.state(prompt));
    check(sink != nullptr, ErrorKind::invalid_argument, "the sink for {} bytes is NULL",
          bytes.size());
    sink(context, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

lathe_error* restore(lathe_generator* generator, const lathe_generator_params* params,
                     const void* data, size_t bytes, size_t* prompt) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "the generator");
    demand(prompt, "the place for the prompt's number");
    const std::string_view text = view({static_cast<const char*>(data), bytes}, "a saved prompt");
    llm::PromptState state =
        llm::restore_prompt(*handle.model->decoder, std::as_bytes(std::span(text)));
    handle.outputs.clear();
    *prompt = handle.generator.add(std::move(state), options_of(handle, params));
  });
}

lathe_error* export_all(const lathe_generator* generator, size_t prompt, lathe_state_sink sink,
                        void* context) {
  return guarded([&] {
    const lathe_generator& handle = demand(generator, "the generator");
    const llm::PromptState state = handle.generator.state(prompt);
    std::vector<llm::StateTensor> states = export_states(state.sequence);
    check(sink != nullptr, ErrorKind::invalid_argument, "the sink for {} states is NULL",
          states.size());
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
    lathe_generator& handle = demand(generator, "the generator");
    if (count > 0) demand(words, "the mask's words");
    handle.generator.set_token_mask(prompt, {words, count});
  });
}

std::vector<int64_t> positions_of(const lathe_tensor* given, int64_t rows) {
  if (given == nullptr) return {};
  const auto fits = [&](const Tensor& tensor) {
    return tensor.type() == ElementType::i64 &&
           (tensor.dims() == Dims{rows} || tensor.dims() == Dims{3, rows});
  };
  check(given->box.is_tensor() && fits(given->box.tensor()), ErrorKind::invalid_argument,
        "positions are {}, expected i64[{}] or [3, {}]",
        given->box.is_tensor() ? to_string(given->box.tensor().type(), given->box.tensor().dims())
                               : "no tensor",
        rows, rows);
  const Tensor dense = given->box.tensor().dense();
  return {dense.as<int64_t>(), dense.as<int64_t>() + dense.count()};
}

lathe_error* append_embeddings(lathe_generator* generator, size_t prompt, const lathe_tensor* rows,
                               const lathe_tensor* positions, uint64_t hash) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "the generator");
    const Box& box = demand(rows, "the embeddings").box;
    check(box.is_tensor(), ErrorKind::invalid_argument,
          "the embeddings for prompt {} are no tensor", prompt);
    const size_t count = handle.generator.prompts();
    check(prompt <= count, ErrorKind::invalid_argument,
          "prompt {} is given embeddings, there are {}", prompt, count);
    llm::PromptPart part{.embeddings = llm::make_embeddings(box.tensor().clone())};
    if (hash != 0) part.embeddings.hash = hash;
    const std::vector<int64_t> told = positions_of(positions, part.embeddings.count());
    check_embeddings(part.embeddings, handle.model->decoder->limits());
    part.positions = told;
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
  api.generator_choice = get_choice;
  api.generator_fork = fork;
  api.generator_save = save;
  api.generator_restore = restore;
  api.generator_export = export_all;
  api.generator_set_token_mask = set_token_mask;
  api.generator_append_embeddings = append_embeddings;
}

}  // namespace lathe::capi

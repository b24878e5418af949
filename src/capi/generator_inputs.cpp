// SPDX-License-Identifier: MIT
// Inputs of a generator: tokens, and model inputs by their names.
#include <array>

#include "capi/devices.h"
#include "tensor/convert.h"

namespace lathe::capi {
namespace {

using llm::Token;

constexpr auto kComputedInputs = std::to_array<std::string_view>(
    {"attention_mask", "position_ids", "past_key_names", "past_value_names", "past_names"});

void append(lathe_generator& handle, size_t prompt, std::span<const Token> tokens) {
  const size_t count = handle.generator.prompts();
  check(prompt <= count, ErrorKind::invalid_argument, "prompt {} is out of range for {} prompts",
        prompt, count);
  check(prompt < count || !handle.encodes, ErrorKind::invalid_argument,
        "cannot add prompt {}: the encoder's inputs are set for {} prompts", prompt, count);
  check(!tokens.empty(), ErrorKind::invalid_argument,
        "got {} tokens for prompt {}, expected 1 or more", tokens.size(), prompt);
  check_tokens(handle, tokens);
  handle.outputs.clear();
  if (prompt == count) {
    handle.generator.add(tokens, handle.search);
  } else {
    handle.generator.append_tokens(prompt, tokens);
  }
}

lathe_error* append_tokens(lathe_generator* generator, size_t prompt, const int32_t* tokens,
                           size_t count) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    if (count > 0) demand(tokens, "tokens");
    append(handle, prompt, {tokens, count});
  });
}

// Tokens of all prompts: [tokens] of one prompt, or [prompts, tokens].
void append_ids(lathe_generator& handle, std::string_view name, const Box& box) {
  const bool fits =
      box.is_tensor() &&
      (box.tensor().type() == ElementType::i32 || box.tensor().type() == ElementType::i64) &&
      (box.tensor().rank() == 1 || box.tensor().rank() == 2);
  check(fits, ErrorKind::invalid_argument, "input '{}' is {}, expected i32 or i64 of rank 1 or 2",
        escape(name),
        box.is_tensor() ? to_string(box.tensor().type(), box.tensor().dims()) : "not a tensor");
  const Tensor dense = box.tensor().dense();
  const auto prompts = static_cast<size_t>(dense.rank() == 1 ? 1 : dense.dims()[0]);
  const size_t there = handle.generator.prompts();
  check(prompts > 0 && (there == 0 || prompts == there), ErrorKind::invalid_argument,
        "input '{}' is {}, tokens of {} prompts, but the generator has {}", escape(name),
        to_string(dense.type(), dense.dims()), prompts, there);
  std::vector<int64_t> all(static_cast<size_t>(dense.count()));
  convert(ElementType::i64, all.data(), dense.type(), dense.data(), dense.count());
  const int64_t width = handle.model->decoder->vocabulary();
  for (const int64_t id : all) {
    check(id >= 0 && id < width, ErrorKind::invalid_argument,
          "token {} is outside the vocabulary of {} tokens", id, width);
  }
  const std::vector<Token> tokens(all.begin(), all.end());
  const auto length = static_cast<size_t>(dense.dims().back());
  for (size_t prompt = 0; prompt < prompts; ++prompt) {
    append(handle, prompt, std::span(tokens).subspan(prompt * length, length));
  }
}

lathe_error* set_input(lathe_generator* generator, const char* name, const lathe_tensor* given) {
  return guarded([&] {
    lathe_generator& handle = demand(generator, "generator");
    const std::string_view noun = &demand(name, "name");
    const llm::GenaiConfig& config = handle.model->decoder->config();
    const auto is = [&](std::string_view known) {
      return noun == known || noun == llm::name_of(config.decoder.inputs, known, known);
    };
    check(std::ranges::none_of(kComputedInputs, is), ErrorKind::invalid_argument,
          "input '{}' is computed from the tokens and cannot be set", escape(noun));
    handle.model->decoder->refuse_media(noun);
    const Box& box = host_box(given, "tensor");
    // The name in the encoder's file, or GenAI's name.
    const auto others = handle.model->decoder->model_inputs();
    const std::string own = config.encoder && std::ranges::find(others, noun) == others.end()
                                ? llm::name_of(config.encoder->inputs, noun, noun)
                                : std::string(noun);
    if (std::ranges::find(others, own) != others.end()) {
      check(box.is_tensor(), ErrorKind::invalid_argument, "input '{}' is not a tensor",
            escape(noun));
      handle.generator.set_model_input(own, box.tensor(), handle.search);
      handle.encodes = true;
      return;
    }
    check(is("input_ids"), ErrorKind::unsupported, "input '{}' cannot be set", escape(noun));
    append_ids(handle, noun, box);
  });
}

}  // namespace

void add_generator_inputs(lathe_api& api) {
  api.generator_append_tokens = append_tokens;
  api.generator_set_model_input = set_input;
}

}  // namespace lathe::capi

// SPDX-License-Identifier: MIT
// Adds prompts, sets their inputs, appends, rewinds and replaces tokens.
#include <algorithm>
#include <random>

#include "base/error.h"
#include "llm/model/generator_prompt.h"

namespace lathe::llm {
namespace {

uint64_t seed_of(const search::SearchOptions& options) {
  if (options.random_seed >= 0) return static_cast<uint64_t>(options.random_seed);
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

// Resets the text and choices to the generated tokens of this chat turn.
void Generator::begin_text(const Prompt& prompt, Branch& branch) const {
  branch.choices.keep(branch.tokens.size() - prompt.prompt_tokens);
  if (tokenizer_ == nullptr) return;
  branch.text.emplace(tokenizer_, prompt.options.stop_strings, ends_);
  branch.text->push(std::span(branch.tokens).subspan(prompt.prompt_tokens));
}

// Explicit position ids ahead of the token count leave less of the context.
int64_t Generator::longest(const Prompt& prompt, const Extras& extras) const {
  int64_t most = decoder_->config().context_length - extras.position_delta();
  if (prompt.options.max_length > 0) most = std::min(most, prompt.options.max_length);
  if (prompt.options.max_new_tokens > 0) {
    most =
        std::min(most, static_cast<int64_t>(prompt.prompt_tokens) + prompt.options.max_new_tokens);
  }
  return most;
}

search::SamplingBlock Generator::block_of(const Prompt& prompt, const Branch& branch,
                                          size_t number) const {
  return {.options = &prompt.options,
          .history = {branch.tokens, prompt.prompt_tokens},
          .ends = ends_,
          .longest = longest(prompt, branch.extras),
          .seed = prompt.seed,
          .sequence = number,
          .mask = {}};
}

std::unique_ptr<Generator::Prompt> Generator::new_prompt(
    const search::SearchOptions& options) const {
  check_search_options(options, decoder_->vocabulary());
  check(options.stop_strings.empty() || tokenizer_ != nullptr, ErrorKind::invalid_argument,
        "stop string '{}' requires a tokenizer, but this generator has none",
        escape(options.stop_strings.empty() ? "" : options.stop_strings.front()));
  auto prompt = std::make_unique<Prompt>();
  prompt->options = options;
  prompt->seed = seed_of(options);
  prompt->index = prompts_.size();
  return prompt;
}

size_t Generator::add(std::span<const Token> prompt, const search::SearchOptions& options) {
  const PromptPart part{.tokens = prompt};
  return add_parts({&part, prompt.empty() ? size_t{0} : 1}, options);
}

size_t Generator::add_parts(std::span<const PromptPart> parts,
                            const search::SearchOptions& options) {
  std::unique_ptr<Prompt> prompt = new_prompt(options);
  prompt->branches.push_back({.sequence = decoder_->new_sequence()});
  begin_text(*prompt, prompt->branches.front());
  prompts_.push_back(std::move(prompt));
  if (!parts.empty()) {
    try {
      append_parts(prompts_.size() - 1, parts);
    } catch (...) {
      prompts_.pop_back();
      throw;
    }
  }
  return prompts_.size() - 1;
}

size_t Generator::add(PromptState state, const search::SearchOptions& options) {
  check(state.sequence.shared_layout() == decoder_->new_sequence().shared_layout(),
        ErrorKind::invalid_argument, "a state of {} tokens belongs to another model",
        state.tokens.size());
  const size_t generated = state.tokens.size() - state.prompt;
  check(options.num_beams == 1 || generated == 0, ErrorKind::invalid_argument,
        "{} beams cannot continue {} generated tokens", options.num_beams, generated);
  check(options.log_probabilities == 0 || state.choices.size() == generated,
        ErrorKind::invalid_argument,
        "log-probabilities of {} generated tokens are requested, but the state has {}", generated,
        state.choices.size());
  std::unique_ptr<Prompt> prompt = new_prompt(options);
  prompt->prompt_tokens = state.prompt;
  Branch branch{.sequence = std::move(state.sequence),
                .tokens = std::move(state.tokens),
                .extras = {std::move(state.embedded), std::move(state.positions)},
                .reason = state.reason,
                .choices = search::Choices(state.choices)};
  check_extras(branch.extras);
  begin_text(*prompt, branch);
  // The new options decide whether the prompt is full.
  if (branch.reason != FinishReason::stop) {
    const bool full = std::ssize(branch.tokens) >= longest(*prompt, branch.extras);
    branch.reason = full ? FinishReason::length : FinishReason::none;
  }
  if (branch.reason != FinishReason::none && branch.text) branch.text->finish();
  prompt->step = branch.pending().size();
  prompt->branches.push_back(std::move(branch));
  prompts_.push_back(std::move(prompt));
  return prompts_.size() - 1;
}

PromptState Generator::state(size_t prompt) const {
  const Branch& branch = only_branch(prompt, "returning a state");
  PromptState state{branch.sequence,
                    branch.tokens,
                    branch.extras.embedded,
                    branch.extras.positions,
                    prompt_at(prompt).prompt_tokens,
                    branch.reason,
                    branch.choices.list()};
  // The last token runs again: the next one is sampled from its logits.
  const int64_t most = std::max<int64_t>(std::ssize(state.tokens) - 1, 0);
  if (state.sequence.length() > most) state.sequence.rewind(most);
  return state;
}

Generator::Branch& Generator::only_branch(size_t prompt, std::string_view what) {
  return const_cast<Branch&>(std::as_const(*this).only_branch(prompt, what));
}

const Generator::Branch& Generator::only_branch(size_t prompt, std::string_view what) const {
  const Prompt& own = prompt_at(prompt);
  check(own.beams == nullptr && own.branches.size() == 1, ErrorKind::invalid_argument,
        "prompt {} has {} branches: {} requires one", prompt, own.branches.size(), what);
  return own.branches.front();
}

// Memory of all sequences except those of one prompt.
int64_t Generator::held_bytes(const Prompt* except) const {
  int64_t bytes = 0;
  for (const auto& own : prompts_) {
    if (own.get() == except) continue;
    for (const Branch& branch : own->branches) bytes += branch.sequence.committed_bytes();
  }
  return bytes;
}

// Starts a chat turn with `length` tokens before the first generated one.
void Generator::begin_turn(Prompt& prompt, size_t length, const Extras& extras) const {
  const int64_t context = decoder_->config().context_length;
  const int64_t delta = extras.position_delta();
  check(static_cast<int64_t>(length) < context - delta, ErrorKind::invalid_argument,
        "{} tokens{} leave no room in a context of {}", length,
        delta > 0 ? fmt::format(", the last with position id {},",
                                static_cast<int64_t>(length) + delta - 1)
                  : "",
        context);
  const int64_t others = held_bytes(&prompt);
  decoder_->check_room(static_cast<int64_t>(length), held_bytes(nullptr) - others, others);
  const size_t before = prompt.prompt_tokens;
  prompt.prompt_tokens = length;
  const int64_t most = longest(prompt, extras);
  if (static_cast<int64_t>(length) >= most) {
    prompt.prompt_tokens = before;
    fail(ErrorKind::invalid_argument, "{} tokens leave no room below a maximum length of {}",
         length, most);
  }
}

void Generator::set_model_input(size_t prompt, const std::string& name, Tensor tensor) {
  Branch& branch = only_branch(prompt, "setting inputs");
  decoder_->refuse_media(name);
  static_cast<void>(decoder_->model_input_type(name));
  NamedTensors& inputs = prompt_at(prompt).inputs;
  inputs[name] = std::move(tensor);
  if (inputs.size() < decoder_->model_inputs().size()) return;
  decoder_->encode(branch.sequence, inputs);
  inputs.clear();
}

void Generator::set_model_input(const std::string& name, const Tensor& batch,
                                const search::SearchOptions& options) {
  const Type& type = decoder_->model_input_type(name);
  const bool ranked = type.is_ranked() && type.rank() > 0;
  // A prompt's part has size 1 on axis 0 unless the file fixes another.
  const int64_t each = ranked ? type.dims->front().constant().value_or(1) : 1;
  const int64_t extent = batch.rank() > 0 ? batch.dims()[0] : 0;
  const bool fits =
      (!ranked || type.rank() == batch.rank()) && each > 0 && extent >= each && extent % each == 0;
  check(fits, ErrorKind::invalid_argument,
        "input '{}' is {}, expected {} with all prompts along the first axis", escape(name),
        to_string(batch.type(), batch.dims()), escape(type.to_string()));
  const auto count = static_cast<size_t>(extent / each);
  const size_t before = prompts();
  check(before == 0 || before == count, ErrorKind::invalid_argument,
        "input '{}' is {}, with {} prompts along the first axis, but there {} {}", escape(name),
        to_string(batch.type(), batch.dims()), count, before == 1 ? "is" : "are", before);
  const Tensor dense = batch.dense();
  try {
    while (prompts() < count) add({}, options);
    for (size_t i = 0; i < count; ++i) {
      set_model_input(i, name, slice_along(dense, 0, static_cast<int64_t>(i) * each, each));
    }
  } catch (...) {
    prompts_.resize(before);
    throw;
  }
}

void Generator::append_tokens(size_t prompt, std::span<const Token> tokens) {
  const PromptPart part{.tokens = tokens};
  append_parts(prompt, {&part, 1});
}

void Generator::append_parts(size_t prompt, std::span<const PromptPart> parts) {
  Branch& branch = only_branch(prompt, "appending tokens");
  std::vector<Token> tokens = branch.tokens;
  Extras extras = branch.extras;
  for (const PromptPart& part : parts) extras.add(part, tokens, decoder_->limits());
  check_extras(extras);
  Prompt& own = prompt_at(prompt);
  begin_turn(own, tokens.size(), extras);
  own.step = tokens.size() - branch.tokens.size() + (own.fresh ? own.step : 0);
  branch.sequence.checkpoint();
  branch.tokens = std::move(tokens);
  branch.extras = std::move(extras);
  branch.reason = FinishReason::none;
  own.waiting = false;
  own.fresh = true;
  begin_text(own, branch);
}

void Generator::check_extras(const Extras& extras) const {
  for (const EmbeddedTokens& own : extras.embedded) {
    check_embeddings(own.embeddings, decoder_->limits());
  }
  for (const Positions::Run& run : extras.positions.runs()) {
    check_positions(run.values, run.count, decoder_->limits());
  }
}

// Embeddings in the common prefix stay.
void Generator::replace_tokens(size_t prompt, std::span<const Token> tokens) {
  const Branch& branch = only_branch(prompt, "replacing tokens");
  Extras extras = branch.extras;
  const auto same = std::ranges::mismatch(branch.tokens, tokens).in2 - tokens.begin();
  extras.keep(static_cast<size_t>(same));
  for (const Token token : tokens.subspan(static_cast<size_t>(same))) {
    check(token >= 0, ErrorKind::invalid_argument,
          "token {} is a placeholder of embeddings outside the common prefix", token);
  }
  replace(prompt, {tokens.begin(), tokens.end()}, std::move(extras));
}

void Generator::replace_parts(size_t prompt, std::span<const PromptPart> parts) {
  std::vector<Token> tokens;
  Extras extras;
  for (const PromptPart& part : parts) extras.add(part, tokens, decoder_->limits());
  check_extras(extras);
  replace(prompt, std::move(tokens), std::move(extras));
}

void Generator::replace(size_t prompt, std::vector<Token> tokens, Extras extras) {
  Branch& branch = only_branch(prompt, "replacing tokens");
  check(!tokens.empty(), ErrorKind::invalid_argument,
        "prompt {} is replaced by {} tokens, expected at least 1", prompt, tokens.size());
  begin_turn(prompt_at(prompt), tokens.size(), extras);
  int64_t same = std::ranges::mismatch(branch.tokens, tokens).in2 - tokens.begin();
  same = same_embedded(branch.extras.embedded, extras.embedded, same);
  same = branch.extras.positions.same(extras.positions, same);
  // The last token runs again: the next one is sampled from its logits.
  same = std::min(same, std::ssize(tokens) - 1);
  branch.sequence.checkpoint();
  branch.sequence.rewind(std::min(branch.sequence.length(), same));
  prompt_at(prompt).step = tokens.size() - static_cast<size_t>(same);
  branch.tokens = std::move(tokens);
  branch.extras = std::move(extras);
  branch.reason = FinishReason::none;
  prompt_at(prompt).waiting = false;
  prompt_at(prompt).fresh = true;
  prompt_at(prompt).mask.clear();
  begin_text(prompt_at(prompt), branch);
}

void Generator::rewind_to(size_t prompt, size_t length) {
  Branch& branch = only_branch(prompt, "rewinding");
  check(length <= branch.tokens.size(), ErrorKind::invalid_argument,
        "{} tokens cannot be rewound to {}", branch.tokens.size(), length);
  // The last token that stays runs again: the next one is sampled from its logits. So do tokens
  // that no state can rewind to.
  const int64_t most = std::max<int64_t>(static_cast<int64_t>(length) - 1, 0);
  branch.sequence.rewind(std::min(branch.sequence.length(), most));
  branch.tokens.resize(length);
  prompt_at(prompt).step = 0;  // tokens that follow are a step of their own
  branch.extras.keep(length);
  branch.reason = FinishReason::none;
  prompt_at(prompt).prompt_tokens = std::min(prompt_at(prompt).prompt_tokens, length);
  prompt_at(prompt).waiting = false;
  prompt_at(prompt).fresh = true;
  prompt_at(prompt).mask.clear();
  begin_text(prompt_at(prompt), branch);
}

}  // namespace lathe::llm

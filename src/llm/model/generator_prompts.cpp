// SPDX-License-Identifier: MIT
// Prompts are added, given their inputs and more tokens, cut and replaced.
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

// What is told of the tokens generated in this turn.
void Generator::begin_text(const Row& row, Branch& branch) const {
  branch.choices.keep(branch.tokens.size() - row.prompt);
  if (tokenizer_ == nullptr) return;
  branch.text.emplace(tokenizer_, row.options.stop_strings, ends_);
  branch.text->push(std::span(branch.tokens).subspan(row.prompt));
}

// Rows that were told to stand far ahead leave fewer positions to those that follow.
int64_t Generator::longest(const Row& row, const Extras& extras) const {
  int64_t most = decoder_->config().context_length - extras.ahead();
  if (row.options.max_length > 0) most = std::min(most, row.options.max_length);
  if (row.options.max_new_tokens > 0) {
    most = std::min(most, static_cast<int64_t>(row.prompt) + row.options.max_new_tokens);
  }
  return most;
}

std::unique_ptr<Generator::Row> Generator::new_prompt(const search::SearchOptions& options) const {
  check_search_options(options, decoder_->vocabulary());
  check(options.stop_strings.empty() || tokenizer_ != nullptr, ErrorKind::invalid_argument,
        "stop string '{}' wants a tokenizer, and this generator has none",
        escape(options.stop_strings.empty() ? "" : options.stop_strings.front()));
  auto row = std::make_unique<Row>();
  row->options = options;
  row->seed = seed_of(options);
  row->number = rows_.size();
  return row;
}

size_t Generator::add(std::span<const Token> prompt, const search::SearchOptions& options) {
  const PromptPart part{.tokens = prompt};
  return add_parts({&part, prompt.empty() ? size_t{0} : 1}, options);
}

size_t Generator::add_parts(std::span<const PromptPart> parts,
                            const search::SearchOptions& options) {
  std::unique_ptr<Row> row = new_prompt(options);
  row->branches.push_back({.sequence = decoder_->new_sequence()});
  begin_text(*row, row->branches.front());
  rows_.push_back(std::move(row));
  if (!parts.empty()) {
    try {
      append_parts(rows_.size() - 1, parts);
    } catch (...) {
      rows_.pop_back();
      throw;
    }
  }
  return rows_.size() - 1;
}

size_t Generator::add(PromptState state, const search::SearchOptions& options) {
  check(state.sequence.shared_layout() == decoder_->new_sequence().shared_layout(),
        ErrorKind::invalid_argument, "a state of {} tokens is another model's",
        state.tokens.size());
  const size_t generated = state.tokens.size() - state.prompt;
  check(options.num_beams == 1 || generated == 0, ErrorKind::invalid_argument,
        "{} beams cannot go on from {} generated tokens", options.num_beams, generated);
  check(options.log_probabilities == 0 || state.choices.size() == generated,
        ErrorKind::invalid_argument,
        "log-probabilities of {} generated tokens are asked for, and {} are known", generated,
        state.choices.size());
  std::unique_ptr<Row> row = new_prompt(options);
  row->prompt = state.prompt;
  Branch branch{.sequence = std::move(state.sequence),
                .tokens = std::move(state.tokens),
                .extras = {std::move(state.embedded), std::move(state.positions)},
                .reason = state.reason,
                .choices = search::Choices(state.choices)};
  check_extras(branch.extras);
  begin_text(*row, branch);
  // How long it may be follows from its own options.
  if (branch.reason != FinishReason::stop) {
    const bool full = std::ssize(branch.tokens) >= longest(*row, branch.extras);
    branch.reason = full ? FinishReason::length : FinishReason::none;
  }
  if (branch.reason != FinishReason::none && branch.text) branch.text->finish();
  row->branches.push_back(std::move(branch));
  rows_.push_back(std::move(row));
  return rows_.size() - 1;
}

PromptState Generator::state(size_t prompt) const {
  const Branch& branch = only_branch(prompt, "be taken apart");
  PromptState state{branch.sequence,         branch.tokens,      branch.extras.embedded,
                    branch.extras.positions, row(prompt).prompt, branch.reason,
                    branch.choices.list()};
  // The last token is run again: its logits choose the next one.
  const int64_t most = std::max<int64_t>(std::ssize(state.tokens) - 1, 0);
  if (state.sequence.length() > most) state.sequence.rewind(most);
  return state;
}

Generator::Branch& Generator::only_branch(size_t prompt, std::string_view what) {
  return const_cast<Branch&>(std::as_const(*this).only_branch(prompt, what));
}

const Generator::Branch& Generator::only_branch(size_t prompt, std::string_view what) const {
  const Row& row = this->row(prompt);
  check(row.beams == nullptr && row.branches.size() == 1, ErrorKind::invalid_argument,
        "prompt {} has {} branches: they cannot {}", prompt, row.branches.size(), what);
  return row.branches.front();
}

// Memory of all sequences but one row's.
int64_t Generator::held_bytes(const Row* except) const {
  int64_t bytes = 0;
  for (const auto& row : rows_) {
    if (row.get() == except) continue;
    for (const Branch& branch : row->branches) bytes += branch.sequence.committed_bytes();
  }
  return bytes;
}

// A turn whose prompt, with all before it, has `length` tokens.
void Generator::begin_turn(Row& row, size_t length, const Extras& extras) const {
  const int64_t context = decoder_->config().context_length;
  const int64_t ahead = extras.ahead();
  check(static_cast<int64_t>(length) < context - ahead, ErrorKind::invalid_argument,
        "{} tokens{} leave no room in a context of {}", length,
        ahead > 0
            ? fmt::format(", the last at position {},", static_cast<int64_t>(length) + ahead - 1)
            : "",
        context);
  const int64_t others = held_bytes(&row);
  decoder_->check_room(static_cast<int64_t>(length), held_bytes(nullptr) - others, others);
  const size_t before = row.prompt;
  row.prompt = length;
  const int64_t most = longest(row, extras);
  if (static_cast<int64_t>(length) >= most) {
    row.prompt = before;
    fail(ErrorKind::invalid_argument, "{} tokens leave no room below a maximum length of {}",
         length, most);
  }
}

void Generator::set_model_input(size_t prompt, const std::string& name, Tensor tensor) {
  Branch& branch = only_branch(prompt, "take inputs");
  decoder_->refuse_media(name);
  static_cast<void>(decoder_->model_input_type(name));
  NamedTensors& inputs = row(prompt).inputs;
  inputs[name] = std::move(tensor);
  if (inputs.size() < decoder_->model_inputs().size()) return;
  decoder_->encode(branch.sequence, inputs);
  inputs.clear();
}

void Generator::set_model_input(const std::string& name, const Tensor& batch,
                                const search::SearchOptions& options) {
  const Type& type = decoder_->model_input_type(name);
  const bool ranked = type.is_ranked() && type.rank() > 0;
  // A prompt's part is one element long unless the file fixes another extent.
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
        "input '{}' is {}, of {} prompts along the first axis, and there {} {}", escape(name),
        to_string(batch.type(), batch.dims()), count, before == 1 ? "is" : "are", before);
  const Tensor dense = batch.dense();
  try {
    while (prompts() < count) add({}, options);
    for (size_t i = 0; i < count; ++i) {
      set_model_input(i, name, cut_rows(dense, 0, static_cast<int64_t>(i) * each, each));
    }
  } catch (...) {
    rows_.resize(before);
    throw;
  }
}

void Generator::append_tokens(size_t prompt, std::span<const Token> tokens) {
  const PromptPart part{.tokens = tokens};
  append_parts(prompt, {&part, 1});
}

void Generator::append_parts(size_t prompt, std::span<const PromptPart> parts) {
  Branch& branch = only_branch(prompt, "take more tokens");
  std::vector<Token> tokens = branch.tokens;
  Extras extras = branch.extras;
  for (const PromptPart& part : parts) extras.add(part, tokens, decoder_->limits());
  check_extras(extras);
  begin_turn(row(prompt), tokens.size(), extras);
  branch.sequence.checkpoint();
  branch.tokens = std::move(tokens);
  branch.extras = std::move(extras);
  branch.reason = FinishReason::none;
  row(prompt).waiting = false;
  row(prompt).fresh = true;
  begin_text(row(prompt), branch);
}

void Generator::check_extras(const Extras& extras) const {
  for (const EmbeddedTokens& own : extras.embedded) {
    check_embeddings(own.embeddings, decoder_->limits());
  }
  for (const Positions::Run& run : extras.positions.runs()) {
    check_positions(run.values, run.count, decoder_->limits());
  }
}

// The rows that tokens() lists so far stay what they are.
void Generator::replace_tokens(size_t prompt, std::span<const Token> tokens) {
  const Branch& branch = only_branch(prompt, "take other tokens");
  Extras extras = branch.extras;
  const auto same = std::ranges::mismatch(branch.tokens, tokens).in2 - tokens.begin();
  extras.keep(static_cast<size_t>(same));
  for (const Token token : tokens.subspan(static_cast<size_t>(same))) {
    check(token >= 0, ErrorKind::invalid_argument,
          "token {} stands for a row of embeddings that are not there", token);
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
  Branch& branch = only_branch(prompt, "take other tokens");
  check(!tokens.empty(), ErrorKind::invalid_argument, "prompt {} is replaced by {} tokens", prompt,
        tokens.size());
  begin_turn(row(prompt), tokens.size(), extras);
  int64_t same = std::ranges::mismatch(branch.tokens, tokens).in2 - tokens.begin();
  same = same_embedded(branch.extras.embedded, extras.embedded, same);
  same = branch.extras.positions.same(extras.positions, same);
  // The last token is run again: its logits choose the next one.
  same = std::min(same, std::ssize(tokens) - 1);
  branch.sequence.checkpoint();
  branch.sequence.rewind(std::min(branch.sequence.length(), same));
  branch.tokens = std::move(tokens);
  branch.extras = std::move(extras);
  branch.reason = FinishReason::none;
  row(prompt).waiting = false;
  row(prompt).fresh = true;
  row(prompt).mask.clear();
  begin_text(row(prompt), branch);
}

void Generator::rewind_to(size_t prompt, size_t length) {
  Branch& branch = only_branch(prompt, "be rewound");
  check(length <= branch.tokens.size(), ErrorKind::invalid_argument,
        "{} tokens cannot be rewound to {}", branch.tokens.size(), length);
  // The last token that stays is run again: its logits choose the next one. So are those before it
  // that no state goes back to.
  const int64_t rows = std::max<int64_t>(static_cast<int64_t>(length) - 1, 0);
  branch.sequence.rewind(std::min(branch.sequence.length(), rows));
  branch.tokens.resize(length);
  branch.extras.keep(length);
  branch.reason = FinishReason::none;
  row(prompt).prompt = std::min(row(prompt).prompt, length);
  row(prompt).waiting = false;
  row(prompt).fresh = true;
  row(prompt).mask.clear();
  begin_text(row(prompt), branch);
}

}  // namespace lathe::llm

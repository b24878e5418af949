// SPDX-License-Identifier: MIT
#include "llm/model/generator.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "llm/model/sequence_tensors.h"
#include "llm/search/sampler.h"

namespace lathe::llm {
namespace {

constexpr int64_t kDefaultChunk = 512;
constexpr int64_t kTimedChunk = 64;  // a deadline is looked at between chunks

uint64_t seed_of(const search::SearchOptions& options) {
  if (options.random_seed >= 0) return static_cast<uint64_t>(options.random_seed);
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

void check_time(std::optional<Clock::time_point> deadline, int64_t rows) {
  check(!deadline || Clock::now() < *deadline, ErrorKind::interrupted,
        "the time is over after {} rows", rows);
}

}  // namespace

std::string_view to_string(FinishReason reason) {
  if (reason == FinishReason::stop) return "stop";
  return reason == FinishReason::length ? "length" : "none";
}

// What a sequence's tokens come with.
struct Generator::Extras {
  std::vector<EmbeddedRows> embedded{};
  Positions positions{};  // that were told

  // Lists the part's rows behind the tokens, too.
  void add(const PromptPart& part, std::vector<Token>& tokens, const RowLimits& limits) {
    const auto begin = std::ssize(tokens);
    const int64_t embeddings = part.embeddings.count();
    check(embeddings == 0 || part.tokens.empty(), ErrorKind::invalid_argument,
          "a part of a prompt has {} tokens and {} rows of embeddings", part.tokens.size(),
          embeddings);
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    for (int64_t row = 0; row < embeddings; ++row) tokens.push_back(part.embeddings.token(row));
    if (embeddings > 0) embedded.push_back({begin, part.embeddings});
    const int64_t rows = std::ssize(tokens) - begin;
    if (part.positions.empty()) return;
    check(std::ssize(part.positions) == rows || std::ssize(part.positions) == 3 * rows,
          ErrorKind::invalid_argument,
          "{} rows come with {} positions, expected one each or [3, {}]", rows,
          part.positions.size(), rows);
    check_positions(part.positions, rows, limits);
    positions.add(begin, rows, part.positions);
  }
  // How far behind their number rows stand that follow.
  int64_t ahead() const {
    return positions.runs().empty() ? 0 : std::max<int64_t>(positions.next(0), 0);
  }
  void keep(size_t length) {
    embedded = cut_embedded(embedded, 0, static_cast<int64_t>(length));
    positions.truncate(static_cast<int64_t>(length));
  }
};

// One continuation of a prompt: a sample, or a live beam.
struct Generator::Branch {
  Sequence sequence;
  std::vector<Token> tokens{};  // those the sequence does not hold yet come last
  Extras extras{};              // of these
  FinishReason reason = FinishReason::none;
  std::optional<TextStream> text{};  // of this turn's tokens
  search::Choices choices{};         // of this turn's tokens, if they are wanted

  // Tokens that have not been run.
  std::span<const Token> pending() const {
    return std::span(tokens).subspan(static_cast<size_t>(sequence.length()));
  }
  // Another's continuation, in the memory at hand.
  void become(const Branch& other) {
    sequence.become(other.sequence);
    tokens = other.tokens;
    extras = other.extras;
    reason = other.reason;
    text = other.text;
    choices = other.choices;
  }
};

struct Generator::Row {
  search::SearchOptions options;
  uint64_t seed = 0;
  uint64_t number = 0;
  size_t prompt = 0;  // tokens before the first generated one of this turn
  std::vector<Branch> branches;
  std::unique_ptr<search::BeamSearch> beams;
  std::vector<Branch> spare;   // beams that hold nothing: the memory of the next ones
  NamedTensors inputs;         // until all are there
  std::vector<uint32_t> mask;  // of the next token; empty: all
  std::vector<float> logits;   // of the last step, for each branch that goes on
  // Of the first branch that goes on, in the parts that were run.
  std::map<std::string, std::vector<Tensor>> outputs;
  bool waiting = false;  // no token was chosen by them yet
  bool fresh = true;     // no step has served it since it was made or given other tokens
  bool begun = false;

  bool done() const {
    if (beams != nullptr && beams->done()) return true;
    return std::ranges::all_of(branches,
                               [](const Branch& b) { return b.reason != FinishReason::none; });
  }
};

Generator::Generator(std::shared_ptr<const Decoder> decoder,
                     std::shared_ptr<const tokenizer::Tokenizer> tokenizer)
    : decoder_(std::move(decoder)), tokenizer_(std::move(tokenizer)) {
  for (const int64_t token : decoder_->config().end_tokens)
    ends_.push_back(static_cast<Token>(token));
}

Generator::~Generator() = default;

const Generator::Row& Generator::row(size_t prompt) const {
  check(prompt < rows_.size(), ErrorKind::invalid_argument, "prompt {} of {}", prompt,
        rows_.size());
  return *rows_[prompt];
}

Generator::Row& Generator::row(size_t prompt) {
  return const_cast<Row&>(std::as_const(*this).row(prompt));
}

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

std::unique_ptr<Generator::Row> Generator::new_row(const search::SearchOptions& options) const {
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
  std::unique_ptr<Row> row = new_row(options);
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
  std::unique_ptr<Row> row = new_row(options);
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

const search::SearchOptions& Generator::options(size_t prompt) const { return row(prompt).options; }

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
  for (const EmbeddedRows& own : extras.embedded) {
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

bool Generator::done() const {
  return std::ranges::all_of(
      rows_, [](const auto& row) { return row->done() || row->branches.front().tokens.empty(); });
}

void Generator::keep_outputs(Row& row, NamedTensors& given) const {
  for (auto& [name, tensor] : given) row.outputs[name].push_back(std::move(tensor));
}

// The next rows of a branch. What the request points to stays in `given`, which may still move.
void Generator::ask_for(Branch& branch, size_t rows, StepRequest& request, Given& given) const {
  request.sequence = &branch.sequence;
  request.tokens = branch.pending().first(rows);
  const int64_t begin = branch.sequence.length();
  const int64_t end = begin + static_cast<int64_t>(rows);
  if (!branch.extras.embedded.empty()) {
    given.embedded = cut_embedded(branch.extras.embedded, begin, end);
  }
  given.positions = branch.extras.positions.read(begin, end - begin);
}

// All but the last part of a long prompt.
void Generator::prefill(Row& row, const CancelToken* cancel,
                        std::optional<Clock::time_point> deadline) {
  int64_t chunk = row.options.chunk_size;
  if (chunk == 0) chunk = deadline ? kTimedChunk : kDefaultChunk;
  Branch& branch = row.branches.front();
  while (decoder_->packed() && static_cast<int64_t>(branch.pending().size()) > chunk) {
    check_time(deadline, rows_run_);
    StepRequest request;
    Given given;
    ask_for(branch, static_cast<size_t>(chunk), request, given);
    given.give(request);
    request.logits = LogitRows::range(0, 0);
    NamedTensors outputs;
    if (!decoder_->outputs().empty()) request.outputs = &outputs;
    decoder_->step({&request, 1}, scratch_.logits, cancel);
    keep_outputs(row, outputs);
    rows_run_ += chunk;
  }
}

void Generator::compute_logits(const CancelToken* cancel,
                               std::optional<Clock::time_point> deadline) {
  run_step(cancel, deadline);
}

bool Generator::waiting(size_t prompt) const { return row(prompt).waiting; }

void Generator::set_logits(size_t prompt, std::span<const float> logits) {
  Row& row = this->row(prompt);
  compute_logits();
  check(logits.size() == static_cast<size_t>(decoder_->vocabulary()) ||
            logits.size() == row.logits.size(),
        ErrorKind::invalid_argument, "{} logits are given for a vocabulary of {}", logits.size(),
        decoder_->vocabulary());
  check(row.waiting, ErrorKind::invalid_argument,
        "prompt {} does not choose a token now, so it takes no logits", prompt);
  std::ranges::copy(logits, row.logits.begin());
}

void Generator::set_token_mask(size_t prompt, std::span<const uint32_t> mask) {
  only_branch(prompt, "take a token mask");
  Row& row = this->row(prompt);
  check(row.options.num_beams == 1 && row.options.num_return_sequences == 1,
        ErrorKind::invalid_argument,
        "prompt {} will have {} beams and {} sequences: a token mask is for one", prompt,
        row.options.num_beams, row.options.num_return_sequences);
  search::check_mask(mask, decoder_->vocabulary());
  row.mask.assign(mask.begin(), mask.end());
}

bool Generator::generate_next_token(const CancelToken* cancel,
                                    std::optional<Clock::time_point> deadline) {
  if (!run_step(cancel, deadline) &&
      std::ranges::none_of(rows_, [](const auto& row) { return row->waiting; })) {
    return false;
  }
  for (const auto& row : rows_) {
    if (!row->waiting) continue;
    if (row->options.num_beams > 1) {
      choose_beams(*row);
    } else {
      choose(*row);
    }
    row->waiting = false;
    row->begun = true;
  }
  return !done();
}

// Whether there is memory for the pages that a step takes. Without a limit the machine is asked,
// now and then.
void Generator::check_step(std::span<const StepRequest> requests) {
  constexpr int64_t kUnchecked = 16 << 20;
  int64_t rows = 0;
  for (const StepRequest& request : requests) {
    rows += request.sequence->rows_taken(std::ssize(request.tokens));
  }
  if (rows == 0) return;
  unchecked_bytes_ += rows * decoder_->size().row_bytes;
  if (decoder_->memory_limit() == 0 && unchecked_bytes_ < kUnchecked) return;
  unchecked_bytes_ = 0;
  decoder_->check_room(rows, 0, held_bytes(nullptr));
}

// The rows of all that go on; false if there are none. While prompts wait for their choice, as
// after a hook that failed, only those run that have no logits of their tokens.
bool Generator::run_step(const CancelToken* cancel, std::optional<Clock::time_point> deadline) {
  std::vector<Row*>& served = scratch_.served;
  std::vector<StepRequest>& requests = scratch_.requests;
  std::vector<NamedTensors>& outputs = scratch_.outputs;
  Tensor& logits = scratch_.logits;
  std::vector<Given>& given = scratch_.given;
  served.clear();
  requests.clear();
  given.clear();
  const bool some_wait = std::ranges::any_of(rows_, [](const auto& row) { return row->waiting; });
  for (const auto& row : rows_) {
    if (row->waiting || (some_wait && !row->fresh)) continue;
    if (row->done() || row->branches.front().tokens.empty()) continue;
    row->outputs.clear();
    prefill(*row, cancel, deadline);
    for (Branch& branch : row->branches) {
      if (branch.reason != FinishReason::none) continue;
      served.push_back(row.get());
      ask_for(branch, branch.pending().size(), requests.emplace_back(), given.emplace_back());
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) given[i].give(requests[i]);
  outputs.clear();
  outputs.resize(decoder_->outputs().empty() ? 0 : requests.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i == 0 || served[i] != served[i - 1]) requests[i].outputs = &outputs[i];
  }
  if (requests.empty()) return false;
  check_time(deadline, rows_run_);
  check_step(requests);
  int64_t rows = 0;
  for (const StepRequest& request : requests) rows += static_cast<int64_t>(request.tokens.size());
  decoder_->step(requests, logits, cancel);
  rows_run_ += rows;
  for (size_t i = 0; i < outputs.size(); ++i) keep_outputs(*served[i], outputs[i]);
  const float* from = logits.as<float>();
  for (Row* row : served) {
    if (!row->waiting) {
      row->logits.clear();
      // The answer begins here: a later rendering may leave parts of it out.
      Branch& first = row->branches.front();
      if (row->options.num_beams == 1 && row->options.num_return_sequences == 1 &&
          first.tokens.size() == row->prompt) {
        first.sequence.checkpoint();
      }
    }
    row->logits.insert(row->logits.end(), from, from + decoder_->vocabulary());
    row->waiting = true;
    row->fresh = false;
    from += decoder_->vocabulary();
  }
  return true;
}

void Generator::take(Row& row, Branch& branch, Token token) {
  branch.tokens.push_back(token);
  if (branch.text) branch.text->push(token);
  if (std::ranges::find(ends_, token) != ends_.end() || (branch.text && branch.text->stop())) {
    branch.reason = FinishReason::stop;
  } else if (static_cast<int64_t>(branch.tokens.size()) >= longest(row, branch.extras)) {
    branch.reason = FinishReason::length;
  }
  if (branch.reason != FinishReason::none && branch.text) branch.text->finish();
}

// Hooks run before anything is taken: what they throw leaves no trace.
void Generator::choose(Row& row) {
  const auto width = static_cast<size_t>(decoder_->vocabulary());
  // Samples part after the prompt.
  const size_t count =
      row.begun ? row.branches.size() : static_cast<size_t>(row.options.num_return_sequences);
  std::vector<float>& values = scratch_.values;
  std::vector<Token>& chosen = scratch_.chosen;
  chosen.clear();
  for (size_t i = 0; i < count; ++i) {
    const Branch& branch = row.branches[row.begun ? i : 0];
    if (branch.reason != FinishReason::none) continue;
    const std::span<const float> own =
        std::span(row.logits).subspan(row.begun ? chosen.size() * width : 0, width);
    values.assign(own.begin(), own.end());
    if (hook_) hook_(static_cast<size_t>(row.number), branch.tokens, values);
    // A prompt's samples differ; its place among prompts plays no part.
    chosen.push_back(search::choose_next(values, {.options = &row.options,
                                                  .history = {branch.tokens, row.prompt},
                                                  .ends = ends_,
                                                  .longest = longest(row, branch.extras),
                                                  .seed = row.seed,
                                                  .sequence = i,
                                                  .mask = row.mask}));
  }
  row.mask.clear();
  while (row.branches.size() < count) row.branches.push_back(row.branches.front());
  size_t at = 0;
  for (Branch& branch : row.branches) {
    if (branch.reason != FinishReason::none) continue;
    if (row.options.log_probabilities > 0) {
      branch.choices.add(std::span(row.logits).subspan(row.begun ? at * width : 0, width),
                         chosen[at], static_cast<size_t>(row.options.log_probabilities));
    }
    take(row, branch, chosen[at++]);
  }
}

void Generator::choose_beams(Row& row) {
  const auto width = static_cast<size_t>(decoder_->vocabulary());
  std::vector<float>& values = scratch_.values;
  std::vector<std::span<const float>>& views = scratch_.views;
  values.assign(row.logits.begin(), row.logits.end());
  views.clear();
  for (size_t i = 0; i * width < values.size(); ++i) {
    const std::span<float> own = std::span(values).subspan(i * width, width);
    if (hook_) hook_(static_cast<size_t>(row.number), row.branches[i].tokens, own);
    search::to_log_probabilities(own);
    apply_rules(own, {row.branches[i].tokens, row.prompt}, row.options, ends_,
                longest(row, row.branches[i].extras));
    views.emplace_back(own);
  }
  if (row.beams == nullptr) {
    row.beams =
        std::make_unique<search::BeamSearch>(row.options, ends_, static_cast<int64_t>(row.prompt),
                                             longest(row, row.branches.front().extras));
  }
  search::BeamSearch::EndTest ends_text;
  if (!row.options.stop_strings.empty()) {
    ends_text = [&](size_t parent, Token token) {
      TextStream text = *row.branches[parent].text;
      text.push(token);
      return text.stop().has_value();
    };
  }
  const std::span<const search::BeamSearch::Next> next = row.beams->step(views, ends_text);
  // None is left where stop strings ended all; the prompt's tokens stay known.
  if (next.empty()) return;
  // Copies share their pages; a parent that nobody continues lets go of its own.
  std::vector<Branch>& branches = row.spare;
  while (branches.size() < next.size()) branches.push_back({.sequence = decoder_->new_sequence()});
  branches.erase(branches.begin() + std::ssize(next), branches.end());
  for (size_t i = 0; i < next.size(); ++i) {
    branches[i].become(row.branches[next[i].parent]);
    branches[i].tokens.push_back(next[i].token);
    if (branches[i].text) branches[i].text->push(next[i].token);
  }
  std::swap(row.branches, row.spare);
  for (Branch& branch : row.spare) branch.sequence.release();
}

std::vector<Output> Generator::outputs(size_t prompt) const {
  const Row& row = this->row(prompt);
  std::vector<Output> all;
  if (row.beams == nullptr) {
    for (const Branch& branch : row.branches) {
      all.push_back({branch.tokens, row.prompt, branch.reason, 0,
                     branch.text ? branch.text->text() : std::string(), branch.choices.list()});
    }
    return all;
  }
  const std::span<const Token> start = std::span(row.branches.front().tokens).first(row.prompt);
  for (const search::Hypothesis& hypothesis : row.beams->finish()) {
    Output output{
        {start.begin(), start.end()}, row.prompt, FinishReason::length, hypothesis.score, {}, {}};
    output.tokens.insert(output.tokens.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
    bool stopped = std::ranges::find(ends_, output.tokens.back()) != ends_.end();
    if (tokenizer_ != nullptr) {
      TextStream text(tokenizer_, row.options.stop_strings, ends_);
      text.push(hypothesis.tokens);
      stopped = stopped || text.stop().has_value();
      text.finish();
      output.text = text.text();
    }
    if (stopped) output.reason = FinishReason::stop;
    all.push_back(std::move(output));
  }
  return all;
}

std::span<const Token> Generator::tokens(size_t prompt) const {
  return row(prompt).branches.front().tokens;
}

std::string_view Generator::text(size_t prompt) const {
  const Branch& branch = row(prompt).branches.front();
  return branch.text ? std::string_view(branch.text->text()) : std::string_view();
}

std::span<const float> Generator::logits(size_t prompt) const {
  const std::span<const float> all = row(prompt).logits;
  return all.first(std::min(all.size(), static_cast<size_t>(decoder_->vocabulary())));
}

std::span<const float> Generator::all_logits(size_t prompt) const { return row(prompt).logits; }

Tensor Generator::output(size_t prompt, const std::string& name) {
  if (!row(prompt).done()) compute_logits();
  const Row& row = this->row(prompt);
  const std::vector<SequenceState>& states = decoder_->layout().states();
  const auto names_state = [&](const auto& s) { return s.present == name || s.past == name; };
  if (std::ranges::any_of(states, names_state)) {
    for (StateTensor& state : export_states(row.branches.front().sequence)) {
      if (names_state(state)) return std::move(state.tensor);
    }
  }
  const std::vector<ProgramOutput>& others = decoder_->outputs();
  const auto other = std::ranges::find(others, name, &ProgramOutput::name);
  std::vector<std::string_view> known;
  for (const ProgramOutput& output : others) known.push_back(output.name);
  for (const SequenceState& state : states) known.push_back(state.present);
  check(other != others.end(), ErrorKind::invalid_argument,
        "the model has no output '{}' that can be asked for{}", escape(name),
        did_you_mean(name, known));
  const auto parts = row.outputs.find(name);
  check(parts != row.outputs.end(), ErrorKind::invalid_argument,
        "prompt {} has run no rows, so output '{}' is not there", prompt, escape(name));
  return other->axis < 0 ? parts->second.back() : join_along(parts->second, other->axis);
}

size_t Generator::pages() const {
  size_t count = 0;
  for (const auto& row : rows_) {
    for (const Branch& branch : row->branches) count += branch.sequence.pages();
  }
  return count;
}

}  // namespace lathe::llm

// SPDX-License-Identifier: MIT
// Runs steps and samples tokens from their logits.
#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "llm/model/generator_prompt.h"
#include "llm/search/log_probabilities.h"

namespace lathe::llm {
namespace {

constexpr int64_t kTimedChunk = 64;  // deadlines are checked between chunks

void check_time(std::optional<Clock::time_point> deadline, int64_t tokens) {
  check(!deadline || Clock::now() < *deadline, ErrorKind::interrupted, "timed out after {} tokens",
        tokens);
}

}  // namespace

void Generator::keep_outputs(Prompt& prompt, NamedTensors& results) const {
  for (auto& [name, tensor] : results) prompt.outputs[name].push_back(std::move(tensor));
}

// Requests the next tokens of a branch. `inputs` owns the request's data; attach_to() sets the
// pointers after its last move.
void Generator::make_request(Branch& branch, size_t tokens, StepRequest& request,
                             Inputs& inputs) const {
  request.sequence = &branch.sequence;
  request.tokens = branch.pending().first(tokens);
  const int64_t begin = branch.sequence.length();
  const int64_t end = begin + static_cast<int64_t>(tokens);
  if (!branch.extras.embedded.empty()) {
    inputs.embedded = cut_embedded(branch.extras.embedded, begin, end);
  }
  inputs.positions = branch.extras.positions.read(begin, end - begin);
}

// Runs a long prompt in chunks, except the last chunk.
void Generator::prefill(Prompt& prompt, const CancelToken* cancel,
                        std::optional<Clock::time_point> deadline) {
  int64_t chunk = prompt.options.chunk_size;
  if (chunk == 0) chunk = deadline ? kTimedChunk : decoder_->prompt_tokens();
  Branch& branch = prompt.branches.front();
  while (decoder_->packed() && static_cast<int64_t>(branch.pending().size()) > chunk) {
    check_time(deadline, tokens_run_);
    StepRequest request;
    Inputs inputs;
    make_request(branch, static_cast<size_t>(chunk), request, inputs);
    inputs.attach_to(request);
    request.logits = LogitPositions::range(0, 0);
    NamedTensors outputs;
    if (!decoder_->outputs().empty()) request.outputs = &outputs;
    decoder_->step({&request, 1}, scratch_.next_logits, cancel);
    keep_outputs(prompt, outputs);
    tokens_run_ += chunk;
  }
}

void Generator::compute_logits(const CancelToken* cancel,
                               std::optional<Clock::time_point> deadline) {
  run_step(cancel, deadline);
}

Tensor Generator::step_logits(size_t prompt) {
  if (prompt_at(prompt).fresh) compute_logits();
  const Prompt& own = prompt_at(prompt);
  const std::span<const float> logits = logits_of(own);
  check(!logits.empty() && !own.branches.empty(), ErrorKind::invalid_argument,
        "prompt {} has no logits of a step", prompt);
  const int64_t width = decoder_->vocabulary();
  if (own.step == 1) {
    Tensor last(ElementType::f32, {std::ssize(logits) / width, 1, width});
    std::ranges::copy(logits, last.as<float>());
    return last;
  }
  const Branch& branch = own.branches.front();
  Branch again{.sequence = branch.sequence, .tokens = branch.tokens, .extras = branch.extras};
  again.tokens.resize(static_cast<size_t>(branch.sequence.length()));
  const int64_t begin = branch.sequence.length() - static_cast<int64_t>(own.step);
  again.sequence.rewind(begin);
  Tensor all(ElementType::f32, {1, static_cast<int64_t>(own.step), width});
  auto* to = all.as<float>();
  const int64_t chunk =
      own.options.chunk_size > 0 ? own.options.chunk_size : decoder_->prompt_tokens();
  while (!again.pending().empty()) {
    const size_t limit = decoder_->packed() ? static_cast<size_t>(chunk) : SIZE_MAX;
    const size_t count = std::min(again.pending().size(), limit);
    StepRequest request;
    Inputs inputs;
    make_request(again, count, request, inputs);
    inputs.attach_to(request);
    const auto end = static_cast<int64_t>(count);
    const int64_t skipped = std::clamp<int64_t>(begin - again.sequence.length(), 0, end);
    request.logits = LogitPositions::range(skipped, end - skipped);
    check_step({&request, 1});
    const Tensor part = decoder_->step({&request, 1});
    to = std::copy_n(part.as<float>(), part.count(), to);
  }
  return all;
}

void Generator::set_logits(size_t prompt, std::span<const float> logits) {
  Prompt& own = prompt_at(prompt);
  compute_logits();
  check(logits.size() == static_cast<size_t>(decoder_->vocabulary()) ||
            logits.size() == logits_of(own).size(),
        ErrorKind::invalid_argument, "got {} logits for a vocabulary of {}", logits.size(),
        decoder_->vocabulary());
  check(own.waiting, ErrorKind::invalid_argument,
        "prompt {} has no token to sample: it accepts no logits", prompt);
  std::ranges::copy(logits, own.logits.begin());
  own.logits_at = -1;
}

void Generator::set_token_mask(size_t prompt, std::span<const uint32_t> mask) {
  only_branch(prompt, "setting a token mask");
  Prompt& own = prompt_at(prompt);
  check(own.options.num_beams == 1 && own.options.num_return_sequences == 1,
        ErrorKind::invalid_argument,
        "prompt {} has {} beams and {} sequences: a token mask requires one of each", prompt,
        own.options.num_beams, own.options.num_return_sequences);
  search::check_mask(mask, decoder_->vocabulary());
  own.mask.assign(mask.begin(), mask.end());
}

bool Generator::generate_next_token(const CancelToken* cancel,
                                    std::optional<Clock::time_point> deadline) {
  if (ahead_ != nullptr && is_next(*ahead_, kept_)) {
    check_interrupt();
    check(cancel == nullptr || !cancel->cancelled(), ErrorKind::interrupted,
          "cancelled after {} tokens", tokens_run_);
    check_time(deadline, tokens_run_);
    go_on_ahead(kept_);
    return !done();
  }
  if (!run_step(cancel, deadline) &&
      std::ranges::none_of(prompts_, [](const auto& prompt) { return prompt->waiting; })) {
    return false;
  }
  for (const auto& prompt : prompts_) {
    if (!prompt->waiting) continue;
    if (prompt->options.num_beams > 1) {
      choose();
      sample_beams(*prompt);
      prompt->waiting = false;
      prompt->begun = true;
    } else {
      add_choices(*prompt);
    }
  }
  choose();
  if (done()) return false;
  begin_ahead();
  return true;
}

// Checks that memory suffices for the pages of a step. Without a limit, queries the system once per
// 16 MiB of allocations.
void Generator::check_step(std::span<const StepRequest> requests) {
  constexpr int64_t kUnchecked = 16 << 20;
  int64_t positions = 0;
  for (const StepRequest& request : requests) {
    positions += request.sequence->positions_to_allocate(std::ssize(request.tokens));
  }
  if (positions == 0) return;
  unchecked_bytes_ += positions * decoder_->size().token_bytes;
  if (decoder_->memory_limit() == 0 && unchecked_bytes_ < kUnchecked) return;
  unchecked_bytes_ = 0;
  decoder_->check_room(positions, 0, held_bytes(nullptr));
}

// Runs the pending tokens of all live prompts; returns false if there are none. While some prompts
// have logits to sample from, as after a hook that threw, only fresh ones run.
bool Generator::run_step(const CancelToken* cancel, std::optional<Clock::time_point> deadline) {
  drop_ahead();
  std::vector<Prompt*>& served = scratch_.served;
  std::vector<StepRequest>& requests = scratch_.requests;
  std::vector<NamedTensors>& outputs = scratch_.outputs;
  std::vector<Inputs>& inputs = scratch_.inputs;
  served.clear();
  requests.clear();
  inputs.clear();
  const bool some_wait =
      std::ranges::any_of(prompts_, [](const auto& prompt) { return prompt->waiting; });
  for (const auto& prompt : prompts_) {
    if (prompt->waiting || (some_wait && !prompt->fresh)) continue;
    if (prompt->done() || prompt->branches.front().tokens.empty()) continue;
    // A step that was cut short goes on: what its first tokens put out stays.
    const bool goes_on = prompt->fresh && prompt->branches.front().pending().size() < prompt->step;
    if (!goes_on) prompt->outputs.clear();
    prefill(*prompt, cancel, deadline);
    for (Branch& branch : prompt->branches) {
      if (branch.reason != FinishReason::none) continue;
      served.push_back(prompt.get());
      make_request(branch, branch.pending().size(), requests.emplace_back(), inputs.emplace_back());
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) inputs[i].attach_to(requests[i]);
  outputs.clear();
  outputs.resize(decoder_->outputs().empty() ? 0 : requests.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i == 0 || served[i] != served[i - 1]) requests[i].outputs = &outputs[i];
  }
  if (requests.empty()) return false;
  check_time(deadline, tokens_run_);
  check_step(requests);
  int64_t tokens = 0;
  for (const StepRequest& request : requests) tokens += static_cast<int64_t>(request.tokens.size());
  // A failed step leaves the last logits as they are.
  decoder_->step(requests, scratch_.next_logits, cancel);
  tokens_run_ += tokens;
  for (size_t i = 0; i < outputs.size(); ++i) keep_outputs(*served[i], outputs[i]);
  keep_logits(served);
  return true;
}

// Makes the logits of the step those of its prompts; others keep a copy of theirs.
void Generator::keep_logits(std::span<Prompt* const> served) {
  auto next = served.begin();  // in the order of the prompts
  for (const auto& prompt : prompts_) {
    const bool is_served = next != served.end() && *next == prompt.get();
    while (next != served.end() && *next == prompt.get()) ++next;
    if (is_served || prompt->logits_at < 0) continue;
    static_cast<void>(logits_of(*prompt));
    prompt->logits_at = -1;
  }
  std::swap(scratch_.logits, scratch_.next_logits);
  for (size_t i = 0; i < served.size(); ++i) {
    Prompt& prompt = *served[i];
    if (prompt.waiting) {
      ++prompt.logits_count;
      continue;
    }
    prompt.logits.clear();
    prompt.logits_at = static_cast<int64_t>(i);
    prompt.logits_count = 1;
    prompt.step = prompt.fresh ? std::max<size_t>(prompt.step, 1) : 1;
    // The answer begins here: a later rendering may drop parts of it.
    Branch& first = prompt.branches.front();
    if (prompt.options.num_beams == 1 && prompt.options.num_return_sequences == 1 &&
        first.tokens.size() == prompt.prompt_tokens) {
      first.sequence.checkpoint();
    }
    prompt.waiting = true;
    prompt.fresh = false;
  }
}

std::span<const float> Generator::logits_of(const Prompt& prompt) const {
  if (prompt.logits_at >= 0 && prompt.logits.empty()) {
    prompt.logits.resize(static_cast<size_t>(prompt.logits_count * scratch_.logits.vocabulary()));
    scratch_.logits.read(prompt.logits_at, prompt.logits_count, prompt.logits.data());
  }
  return prompt.logits;
}

void Generator::add_token(Prompt& prompt, Branch& branch, Token token) {
  branch.tokens.push_back(token);
  if (branch.text) branch.text->push(token);
  if (std::ranges::find(ends_, token) != ends_.end() || (branch.text && branch.text->stop())) {
    branch.reason = FinishReason::stop;
  } else if (static_cast<int64_t>(branch.tokens.size()) >= longest(prompt, branch.extras)) {
    branch.reason = FinishReason::length;
  }
  if (branch.reason != FinishReason::none && branch.text) branch.text->finish();
}

// Adds the sequences of a prompt to the next choice, from the step's logits or, where a hook or the
// caller changes them, from copies. All hooks of a prompt run before any token is added.
void Generator::add_choices(Prompt& prompt) {
  Scratch& s = scratch_;
  const bool copies = hook_ || prompt.logits_at < 0;
  if (copies != s.choices_copy) choose();
  s.choices_copy = copies;
  const auto width = static_cast<size_t>(decoder_->vocabulary());
  const auto add_row = [&](size_t row) {
    const std::span<const float> own = logits_of(prompt).subspan(row * width, width);
    s.copies.insert(s.copies.end(), own.begin(), own.end());
    return static_cast<int64_t>(s.copies.size() / width) - 1;
  };
  // Samples diverge after the prompt.
  const size_t count = prompt.begun ? prompt.branches.size()
                                    : static_cast<size_t>(prompt.options.num_return_sequences);
  const size_t choices = s.choices.size();
  size_t row = 0;
  try {
    for (size_t i = 0; i < count; ++i) {
      const Branch& branch = prompt.branches[prompt.begun ? i : 0];
      if (branch.reason != FinishReason::none) continue;
      // The sample's number enters the random stream; the prompt's index does not.
      ChoiceRequest& choice = s.choices.emplace_back();
      choice.block = block_of(prompt, branch, i);
      choice.block.mask = prompt.mask;
      const bool reports = prompt.options.log_probabilities > 0;
      choice.row = copies ? add_row(row) : prompt.logits_at + static_cast<int64_t>(row);
      if (hook_) {
        hook_(static_cast<size_t>(prompt.index), branch.tokens, std::span(s.copies).last(width));
      }
      if (reports) choice.reported = hook_ ? add_row(row) : choice.row;
      if (prompt.begun) ++row;
    }
  } catch (...) {
    s.choices.resize(choices);
    choose();  // earlier prompts keep their tokens
    throw;
  }
  s.choosing.emplace_back(&prompt, s.choices.size() - choices);
}

// Chooses tokens of the prompts added since the last call, and adds them in order.
void Generator::choose() {
  Scratch& s = scratch_;
  struct Clear {
    Scratch& s;
    ~Clear() {
      s.choices.clear();
      s.choosing.clear();
      s.copies.clear();
    }
  } const clear{s};
  if (s.choosing.empty()) return;
  const int64_t width = decoder_->vocabulary();
  RunOptions run;
  run.profiler = decoder_->profiler();
  if (s.choices_copy) {
    const int64_t rows = std::ssize(s.copies) / width;
    const StepLogits copies(
        Tensor(ElementType::f32, {rows, width}, {width, 1}, s.copies.data(), nullptr));
    decoder_->chooser().choose(copies, s.choices, s.chosen, run);
  } else {
    decoder_->chooser().choose(s.logits, s.choices, s.chosen, run);
  }
  size_t at = 0;
  for (const auto& [prompt, count] : s.choosing) {
    for (size_t i = at; i < at + count; ++i) {
      TokenChooser::check_chosen(s.chosen.tokens[i], s.choices[i].block);
    }
    add_chosen(*prompt, at);
    at += count;
  }
}

// Adds the chosen tokens from index `at` on.
void Generator::add_chosen(Prompt& prompt, size_t at) {
  const ChosenTokens& chosen = scratch_.chosen;
  const auto count = static_cast<size_t>(prompt.options.num_return_sequences);
  while (!prompt.begun && prompt.branches.size() < count) {
    prompt.branches.push_back(prompt.branches.front());
  }
  const auto likely =
      static_cast<size_t>(std::min(prompt.options.log_probabilities, chosen.likely));
  std::vector<search::TokenLogProbability>& list = scratch_.likely;
  for (Branch& branch : prompt.branches) {
    if (branch.reason != FinishReason::none) continue;
    if (prompt.options.log_probabilities > 0) {
      list.clear();
      for (size_t i = 0; i < likely; ++i) {
        const size_t from = at * static_cast<size_t>(chosen.likely) + i;
        list.push_back({chosen.likely_tokens[from], chosen.likely_log_probabilities[from]});
      }
      branch.choices.add(chosen.log_probabilities[at], list);
    }
    add_token(prompt, branch, chosen.tokens[at++]);
  }
  prompt.mask.clear();
  prompt.waiting = false;
  prompt.begun = true;
}

void Generator::sample_beams(Prompt& prompt) {
  const auto width = static_cast<size_t>(decoder_->vocabulary());
  std::vector<float>& values = scratch_.values;
  std::vector<std::span<const float>>& views = scratch_.views;
  const std::span<const float> logits = logits_of(prompt);
  values.assign(logits.begin(), logits.end());
  views.clear();
  for (size_t i = 0; i * width < values.size(); ++i) {
    const std::span<float> own = std::span(values).subspan(i * width, width);
    if (hook_) hook_(static_cast<size_t>(prompt.index), prompt.branches[i].tokens, own);
    search::to_log_probabilities(own);
    apply_rules(own, {prompt.branches[i].tokens, prompt.prompt_tokens}, prompt.options, ends_,
                longest(prompt, prompt.branches[i].extras));
    views.emplace_back(own);
  }
  if (prompt.beams == nullptr) {
    prompt.beams = std::make_unique<search::BeamSearch>(
        prompt.options, ends_, static_cast<int64_t>(prompt.prompt_tokens),
        longest(prompt, prompt.branches.front().extras));
  }
  search::BeamSearch::EndTest ends_text;
  if (!prompt.options.stop_strings.empty()) {
    ends_text = [&](size_t parent, Token token) {
      TextStream text = *prompt.branches[parent].text;
      text.push(token);
      return text.stop().has_value();
    };
  }
  const std::span<const search::BeamSearch::Next> next = prompt.beams->step(views, ends_text);
  // Stop strings ended all beams: keep the prompt's tokens.
  if (next.empty()) return;
  // Copies share pages; a parent without continuation releases its pages below.
  std::vector<Branch>& branches = prompt.spare;
  while (branches.size() < next.size()) branches.push_back({.sequence = decoder_->new_sequence()});
  branches.erase(branches.begin() + std::ssize(next), branches.end());
  for (size_t i = 0; i < next.size(); ++i) {
    branches[i].become(prompt.branches[next[i].parent]);
    branches[i].tokens.push_back(next[i].token);
    if (branches[i].text) branches[i].text->push(next[i].token);
  }
  std::swap(prompt.branches, prompt.spare);
  for (Branch& branch : prompt.spare) branch.sequence.release();
}

}  // namespace lathe::llm

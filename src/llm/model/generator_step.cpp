// SPDX-License-Identifier: MIT
// Steps: rows are run, and tokens chosen by their logits.
#include <algorithm>

#include "base/error.h"
#include "llm/model/generator_prompt.h"
#include "llm/search/sampler.h"

namespace lathe::llm {
namespace {

constexpr int64_t kDefaultChunk = 512;
constexpr int64_t kTimedChunk = 64;  // a deadline is looked at between chunks

void check_time(std::optional<Clock::time_point> deadline, int64_t rows) {
  check(!deadline || Clock::now() < *deadline, ErrorKind::interrupted,
        "the time is over after {} rows", rows);
}

}  // namespace

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
    request.logits = LogitPositions::range(0, 0);
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

}  // namespace lathe::llm

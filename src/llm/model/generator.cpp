// SPDX-License-Identifier: MIT
#include "llm/model/generator.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/generator_prompt.h"
#include "llm/model/sequence_tensors.h"

namespace lathe::llm {

std::string_view to_string(FinishReason reason) {
  if (reason == FinishReason::stop) return "stop";
  return reason == FinishReason::length ? "length" : "none";
}

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

const search::SearchOptions& Generator::options(size_t prompt) const { return row(prompt).options; }

bool Generator::done() const {
  return std::ranges::all_of(
      rows_, [](const auto& row) { return row->done() || row->branches.front().tokens.empty(); });
}

bool Generator::waiting(size_t prompt) const { return row(prompt).waiting; }

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

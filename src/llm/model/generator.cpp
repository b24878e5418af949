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

const Generator::Prompt& Generator::prompt_at(size_t prompt) const {
  check(prompt < prompts_.size(), ErrorKind::invalid_argument,
        "prompt {} is out of range: there are {}", prompt, prompts_.size());
  return *prompts_[prompt];
}

// The caller may change it.
Generator::Prompt& Generator::prompt_at(size_t prompt) {
  drop_ahead();
  return const_cast<Prompt&>(std::as_const(*this).prompt_at(prompt));
}

const search::SearchOptions& Generator::options(size_t prompt) const {
  return prompt_at(prompt).options;
}

bool Generator::done() const {
  return std::ranges::all_of(prompts_, [](const auto& prompt) {
    return prompt->done() || prompt->branches.front().tokens.empty();
  });
}

bool Generator::waiting(size_t prompt) const { return prompt_at(prompt).waiting; }

std::vector<Output> Generator::outputs(size_t prompt) const {
  const Prompt& own = prompt_at(prompt);
  std::vector<Output> all;
  if (own.beams == nullptr || !own.beams->done()) {
    for (const Branch& branch : own.branches) {
      all.push_back({branch.tokens, own.prompt_tokens, branch.reason, 0,
                     branch.text ? branch.text->text() : std::string(), branch.choices.list()});
    }
    return all;
  }
  const std::span<const Token> start =
      std::span(own.branches.front().tokens).first(own.prompt_tokens);
  for (const search::Hypothesis& hypothesis : own.beams->finish()) {
    Output output{{start.begin(), start.end()},
                  own.prompt_tokens,
                  FinishReason::length,
                  hypothesis.score,
                  {},
                  {}};
    output.tokens.insert(output.tokens.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
    bool stopped = std::ranges::find(ends_, output.tokens.back()) != ends_.end();
    if (tokenizer_ != nullptr) {
      TextStream text(tokenizer_, own.options.stop_strings, ends_);
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
  return prompt_at(prompt).branches.front().tokens;
}

std::string_view Generator::text(size_t prompt) const {
  const Branch& branch = prompt_at(prompt).branches.front();
  return branch.text ? std::string_view(branch.text->text()) : std::string_view();
}

std::span<const float> Generator::logits(size_t prompt) const {
  const std::span<const float> all = logits_of(prompt_at(prompt));
  return all.first(std::min(all.size(), static_cast<size_t>(decoder_->vocabulary())));
}

std::span<const float> Generator::all_logits(size_t prompt) const {
  return logits_of(prompt_at(prompt));
}

Tensor Generator::output(size_t prompt, const std::string& name) {
  if (!prompt_at(prompt).done()) compute_logits();
  const Prompt& own = prompt_at(prompt);
  const std::vector<SequenceState>& states = decoder_->layout().states();
  const auto names_state = [&](const auto& s) { return s.present == name || s.past == name; };
  if (std::ranges::any_of(states, names_state)) {
    for (StateTensor& state : export_states(own.branches.front().sequence)) {
      if (names_state(state)) return std::move(state.tensor);
    }
  }
  const std::vector<ProgramOutput>& others = decoder_->outputs();
  const auto other = std::ranges::find(others, name, &ProgramOutput::name);
  std::vector<std::string_view> known;
  for (const ProgramOutput& output : others) known.push_back(output.name);
  for (const SequenceState& state : states) known.push_back(state.present);
  check(other != others.end(), ErrorKind::invalid_argument,
        "the model has no output '{}' to return{}", escape(name), did_you_mean(name, known));
  const auto parts = own.outputs.find(name);
  check(parts != own.outputs.end(), ErrorKind::invalid_argument,
        "prompt {} has run no tokens: output '{}' has no value", prompt, escape(name));
  return other->axis < 0 ? parts->second.back() : join_along(parts->second, other->axis);
}

size_t Generator::pages() const {
  size_t count = 0;
  for (const auto& prompt : prompts_) {
    for (const Branch& branch : prompt->branches) count += branch.sequence.pages();
  }
  return count;
}

}  // namespace lathe::llm

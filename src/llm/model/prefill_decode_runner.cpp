// SPDX-License-Identifier: MIT
#include "llm/model/prefill_decode_runner.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lathe::llm {
namespace {

std::string describe(const SequenceState& state) {
  return fmt::format("{} of {}", to_string(state.kind()), to_string(state.element, state.extents));
}

void check_same(const SequenceState& prompt, const SequenceState& token) {
  const bool alike = prompt.element == token.element && prompt.extents == token.extents &&
                     prompt.grows == token.grows && prompt.axis == token.axis &&
                     prompt.cross == token.cross;
  check(alike, ErrorKind::unsupported,
        "the state '{}' is {} in the prefill program, but {} in the decode program",
        escape(token.name), describe(prompt), describe(token));
}

const SequenceState* find(const std::vector<SequenceState>& states, const std::string& name) {
  const auto at = std::ranges::find(states, name, &SequenceState::name);
  return at == states.end() ? nullptr : &*at;
}

}  // namespace

std::vector<SequenceState> join_states(const std::vector<SequenceState>& prompt,
                                       const std::vector<SequenceState>& token) {
  for (const SequenceState& state : prompt) {
    check(find(token, state.name) != nullptr, ErrorKind::unsupported,
          "the prefill program has the state '{}', which is not among the decode program's {}",
          escape(state.name), token.size());
  }
  std::vector<SequenceState> states = token;
  for (SequenceState& state : states) {
    const SequenceState* other = find(prompt, state.name);
    check(other != nullptr, ErrorKind::unsupported,
          "the decode program has the state '{}', which is not among the prefill program's {}",
          escape(state.name), prompt.size());
    check_same(*other, state);
    const bool all = state.window == 0 || other->window == 0;
    state.window = all ? 0 : std::max(state.window, other->window);
  }
  return states;
}

void check_alike(const CacheLayout& prompt, const CacheLayout& token) {
  join_states(prompt.states(), token.states());
  for (size_t i = 0; i < token.states().size(); ++i) {
    check(prompt.states()[i].name == token.states()[i].name, ErrorKind::unsupported,
          "state {} is '{}' in the prefill program, but '{}' in the decode program", i,
          escape(prompt.states()[i].name), escape(token.states()[i].name));
  }
}

PrefillDecodeRunner::PrefillDecodeRunner(std::unique_ptr<StepRunner> prompt,
                                         std::unique_ptr<StepRunner> token)
    : StepRunner(*prompt, *token), prompt_(std::move(prompt)), token_(std::move(token)) {}

void PrefillDecodeRunner::set_embedder(std::shared_ptr<const Embedder> embedder) {
  prompt_->set_embedder(embedder);
  token_->set_embedder(embedder);
  StepRunner::set_embedder(std::move(embedder));
}

// A rerun has several tokens.
bool PrefillDecodeRunner::is_prompt(const StepRequest& request) const {
  return request.tokens.size() > 1 || token_->must_rerun(request);
}

void PrefillDecodeRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel,
                              StepLogits& logits) const {
  const auto prompts =
      std::ranges::count_if(requests, [&](const StepRequest& r) { return is_prompt(r); });
  if (prompts == 0) return token_->run(requests, cancel, logits);
  if (prompts == std::ssize(requests)) return prompt_->run(requests, cancel, logits);
  run_both(requests, cancel, logits);
}

// Such a step is no steady decoding: its logits are joined on the host, in f32.
void PrefillDecodeRunner::run_both(std::span<const StepRequest> requests, const CancelToken* cancel,
                                   StepLogits& logits) const {
  std::array<std::vector<StepRequest>, 2> parts;
  const auto kind = [&](const StepRequest& request) { return is_prompt(request) ? 1U : 0U; };
  for (const StepRequest& request : requests) parts[kind(request)].push_back(request);
  std::array<StepLogits, 2> part_logits;
  const auto token = token_->begin(parts[0], cancel, part_logits[0]);
  const auto prompt = prompt_->begin(parts[1], cancel, part_logits[1]);
  const int64_t width = part_logits[0].vocabulary();
  check(part_logits[1].vocabulary() == width, ErrorKind::invalid_model,
        "sequences of one step have {} and {} logits", width, part_logits[1].vocabulary());
  Tensor joined(ElementType::f32, {part_logits[0].count() + part_logits[1].count(), width});
  std::array<int64_t, 2> from{};
  auto* to = joined.as<float>();
  for (const StepRequest& request : requests) {
    const int64_t count = request.logits.count(std::ssize(request.tokens));
    part_logits[kind(request)].read(from[kind(request)], count, to);
    from[kind(request)] += count;
    to += count * width;
  }
  logits = StepLogits(std::move(joined));
  token->commit();
  prompt->commit();
}

}  // namespace lathe::llm

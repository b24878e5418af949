// SPDX-License-Identifier: MIT
#include "llm/model/token_runner.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::llm {
namespace {

const Value& parameter_of(const Program& program, const std::string& name) {
  const auto& parameters = program.main().parameters();
  const auto at =
      std::ranges::find_if(parameters, [&](const auto& p) { return p->name() == name; });
  check(at != parameters.end(), ErrorKind::invalid_argument, "the program has no input '{}'",
        escape(name));
  return **at;
}

constexpr size_t kStateBatch = 1;  // axis of sequences in states

// State of one sequence: batch 1, other unknown dimensions 0.
SequenceState state_of(const Program& program, const StatePair& pair, bool cross) {
  const Type& type = parameter_of(program, pair.past).type();
  const size_t batch = cross ? 0 : kStateBatch;
  const bool fits = type.is_ranked() && type.rank() > static_cast<int>(batch);
  check(fits, ErrorKind::unsupported, "the state '{}' is {}, expected {}", escape(pair.past),
        type.to_string(), cross ? "[batch, …]" : "[layers, batch, …]");
  SequenceState state;
  state.name = pair.past;
  state.past = pair.past;
  state.present = pair.present;
  state.element = type.element;
  state.cross = cross;
  for (const Dim& dim : *type.dims) state.extents.push_back(dim.constant().value_or(0));
  state.extents[batch] = 1;
  check(cross || std::ranges::count(state.extents, 0) == 0, ErrorKind::unsupported,
        "the state '{}' is {}: only its batch may be unknown", escape(pair.past), type.to_string());
  return state;
}

std::shared_ptr<const CacheLayout> layout_of(const Program& program,
                                             const DecoderInterface& names) {
  std::vector<SequenceState> states;
  for (const StatePair& pair : names.states) states.push_back(state_of(program, pair, false));
  for (const StatePair& pair : names.cross) states.push_back(state_of(program, pair, true));
  return std::make_shared<const CacheLayout>(std::move(states), 1, true);
}

}  // namespace

bool takes_single_tokens(const Program& program, const DecoderInterface& names) {
  return std::ranges::any_of(program.main().parameters(), [&](const auto& parameter) {
    const Type& type = parameter->type();
    return parameter->name() == names.tokens && type.is_ranked() && type.rank() == 1;
  });
}

TokenRunner::TokenRunner(const Program& program, const DecoderInterface& names,
                         const RunnerOptions& options)
    : StepRunner(program.clone(), names, layout_of(program, names), options),
      batch_(parameter_of(program, names.tokens).type().dims->front().constant().value_or(0)) {
  const auto& results = program.main().result_names();
  for (const StatePair& pair : names_.states) {
    const auto present = std::ranges::find(results, pair.present);
    check(present != results.end(), ErrorKind::invalid_argument, "the program has no output '{}'",
          escape(pair.present));
    presents_.push_back(static_cast<size_t>(present - results.begin()));
  }
  for (const auto& parameter : program.main().parameters()) {
    const std::string& name = parameter->name();
    const auto is_state = [&](const std::vector<StatePair>& pairs) {
      return std::ranges::find(pairs, name, &StatePair::past) != pairs.end();
    };
    check(name == names_.tokens || name == names_.past_length || is_state(names_.states) ||
              is_state(names_.cross),
          ErrorKind::unsupported, "the input '{}' is {}: its purpose is unknown", escape(name),
          parameter->type().to_string());
  }
  not_packed_reason_ =
      fmt::format("the input '{}' is {}: one token per sequence", escape(names_.tokens),
                  parameter_of(program, names.tokens).type().to_string());
}

// Whether both may share a run.
bool TokenRunner::fits(const Progress& a, const Progress& b) const {
  if (a.position() != b.position() && !names_.past_length.empty()) return false;
  for (size_t i = presents_.size(); i < a.states.size(); ++i) {
    if (a.states[i].dims() != b.states[i].dims()) return false;
  }
  return true;
}

Tensor TokenRunner::make(const Value& parameter, std::span<Progress* const> group) const {
  const std::string& name = parameter.name();
  std::vector<int64_t> values;
  if (name == names_.past_length) {
    values = {group.front()->position()};
    return integer_tensor(parameter.type().element,
                          Dims(static_cast<size_t>(parameter.type().rank()), 1), values);
  }
  if (name == names_.tokens) {
    for (const Progress* own : group) values.push_back(own->request->tokens[own->done]);
    return integer_tensor(parameter.type().element, {std::ssize(values)}, values);
  }
  const auto& states = layout_->states();
  const auto state = std::ranges::find(states, name, &SequenceState::past);
  std::vector<Tensor> parts;
  for (const Progress* own : group) {
    parts.push_back(own->states[static_cast<size_t>(state - states.begin())]);
  }
  return join_along(parts, state->cross ? 0 : static_cast<int>(kStateBatch));
}

// Runs the next token of each.
void TokenRunner::advance(std::span<Progress* const> group, const CancelToken* cancel) const {
  // A fixed batch repeats the last sequence.
  std::vector<Progress*> batch(group.begin(), group.end());
  while (std::ssize(batch) < batch_) batch.push_back(batch.back());
  std::vector<Box> inputs;
  for (const auto& parameter : plan_->program->main().parameters()) {
    inputs.emplace_back(make(*parameter, batch));
  }
  RunOptions run;
  run.cancel = cancel;
  run.profiler = profiler_;
  const std::vector<Box> results = session_->run(inputs, run);
  const Tensor given = results[logits_].tensor().dense();
  check(given.rank() > 0 && given.dims()[0] == std::ssize(batch), ErrorKind::invalid_model,
        "the logits of {} sequences are {}", batch.size(), to_string(given.type(), given.dims()));
  const int64_t width = given.count() / std::ssize(batch);
  for (size_t i = 0; i < group.size(); ++i) {
    Progress& own = *group[i];
    Tensor logits(ElementType::f32, {1, width});
    convert(ElementType::f32, logits.data(), given.type(),
            static_cast<const std::byte*>(given.data()) +
                static_cast<int64_t>(i) * width * info(given.type()).bits / 8,
            width);
    own.logits.push_back(std::move(logits));
    for (size_t state = 0; state < presents_.size(); ++state) {
      own.states[state] = slice_along(results[presents_[state]].tensor(),
                                      static_cast<int>(kStateBatch), static_cast<int64_t>(i), 1);
    }
    ++own.done;
  }
}

void TokenRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel,
                      StepLogits& joined) const {
  const auto& states = layout_->states();
  std::vector<Progress> all;
  for (const StepRequest& request : requests) {
    Progress& own = all.emplace_back(&request);
    for (size_t i = 0; i < states.size(); ++i) {
      Tensor held = request.sequence->tensor(i);
      check(held.data() != nullptr || !states[i].cross, ErrorKind::invalid_argument,
            "a sequence of {} tokens has no '{}': set the encoder's inputs before its tokens",
            request.sequence->length(), escape(states[i].name));
      if (held.data() == nullptr) held = Tensor(states[i].element, states[i].extents);
      own.states.push_back(std::move(held));
    }
  }
  for (;;) {
    std::vector<Progress*> group;
    for (Progress& own : all) {
      const bool room = batch_ == 0 || std::ssize(group) < batch_;
      const bool left = own.done < own.request->tokens.size();
      if (left && room && (group.empty() || fits(*group.front(), own))) group.push_back(&own);
    }
    if (group.empty()) break;
    advance(group, cancel);
  }
  std::vector<Tensor> logits;
  for (const Progress& own : all) {
    const auto count = std::ssize(own.logits);
    const LogitPositions& requested = own.request->logits;
    for (int64_t i = 0; i < requested.count(count); ++i) {
      logits.push_back(own.logits[static_cast<size_t>(requested.at(i, count))]);
    }
  }
  joined = StepLogits(join_logits(logits));
  sample(requests, joined, cancel);
  for (Progress& own : all) {
    own.request->sequence->commit(std::ssize(own.request->tokens), std::move(own.states), false);
    remember(*own.request, nullptr);
  }
}

}  // namespace lathe::llm

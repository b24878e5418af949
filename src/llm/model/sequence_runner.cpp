// SPDX-License-Identifier: MIT
#include "llm/model/sequence_runner.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ir/ops.h"
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

// A constant, or a symbol that the program requires to be one.
std::optional<int64_t> required_extent(const Module& main, const Dim& dim) {
  if (dim.is_constant()) return dim.constant();
  for (const Guard& guard : main.guards()) {
    if (guard.kind != Guard::Kind::requirement || guard.relation != Guard::Relation::equal)
      continue;
    if (guard.a == dim && guard.b.is_constant()) return guard.b.constant();
    if (guard.b == dim && guard.a.is_constant()) return guard.a.constant();
  }
  return std::nullopt;
}

// Shape of an empty past: batch 1, and 0 along the axis that grows.
SequenceState empty_state(const Program& program, const StatePair& pair, const Dim& batch) {
  const Value& past = parameter_of(program, pair.past);
  SequenceState state;
  state.name = pair.past;
  state.past = pair.past;
  state.present = pair.present;
  state.element = past.type().element;
  check(past.type().is_ranked(), ErrorKind::unsupported, "the state '{}' is {}, of unknown rank",
        escape(pair.past), past.type().to_string());
  const std::vector<Dim>& dims = *past.type().dims;
  const bool named = std::ranges::find(dims, batch) != dims.end();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (const std::optional<int64_t> fixed = required_extent(program.main(), dims[axis])) {
      state.extents.push_back(*fixed);
    } else if (named ? dims[axis] == batch : axis == 0) {
      state.extents.push_back(1);
    } else {
      check(state.axis < 0, ErrorKind::unsupported,
            "the state '{}' is {}: more than one dimension is unknown", escape(pair.past),
            past.type().to_string());
      state.axis = static_cast<int>(axis);
      state.extents.push_back(0);
    }
  }
  return state;
}

// Batch 1, other unknown dimensions 0.
SequenceState cross_state(const Program& program, const StatePair& pair) {
  const Value& input = parameter_of(program, pair.past);
  check(input.type().is_ranked() && input.type().rank() > 0, ErrorKind::unsupported,
        "the input '{}' is {}, expected a batch first", escape(pair.past),
        input.type().to_string());
  SequenceState state;
  state.name = pair.past;
  state.past = pair.past;
  state.present = pair.present;
  state.element = input.type().element;
  state.cross = true;
  for (const Dim& dim : *input.type().dims) state.extents.push_back(dim.constant().value_or(0));
  if (state.extents[0] == 0) state.extents[0] = 1;
  return state;
}

// Axis of a result with one element per new token; -1: none.
int token_axis(const Program& program, const DecoderInterface& names, const Value& result) {
  const Dim tokens = (*parameter_of(program, names.tokens).type().dims)[1];
  if (tokens.is_constant() || !result.type().is_ranked()) return -1;
  const auto at = std::ranges::find(*result.type().dims, tokens);
  return at == result.type().dims->end() ? -1 : static_cast<int>(at - result.type().dims->begin());
}

bool is_circular(const std::unique_ptr<Instruction>& instruction) {
  const Attribute* mode = find_attribute(instruction->attributes(), "mode");
  return instruction->op() == ops::tensor_scatter && mode != nullptr &&
         std::get<std::string>(*mode) == "circular";
}

}  // namespace

std::shared_ptr<const CacheLayout> unpaged_layout(const Program& program,
                                                  const DecoderInterface& names) {
  const Type& tokens = parameter_of(program, names.tokens).type();
  const int rank = names.tokens == names.embeddings ? 3 : 2;
  check(tokens.is_ranked() && tokens.rank() == rank, ErrorKind::unsupported,
        "input '{}' is {}, expected [batch, tokens{}]", escape(names.tokens), tokens.to_string(),
        rank == 3 ? ", hidden" : "");
  std::vector<SequenceState> states;
  for (const StatePair& pair : names.states) {
    states.push_back(empty_state(program, pair, tokens.dims->front()));
  }
  for (const StatePair& pair : names.cross) states.push_back(cross_state(program, pair));
  return std::make_shared<const CacheLayout>(std::move(states), 1, true);
}

SequenceRunner::SequenceRunner(const Program& program, const DecoderInterface& names,
                               std::shared_ptr<const CacheLayout> layout,
                               const PackedProgram& packed, const RunnerOptions& options)
    : StepRunner(program.clone(), names, std::move(layout), options, packed.length_switch),
      not_packed_reason_(packed.not_packed_reason) {
  const Module& main = program.main();
  for (const StatePair& pair : names_.states) {
    const auto& results = main.result_names();
    const auto present = std::ranges::find(results, pair.present);
    check(present != results.end(), ErrorKind::invalid_argument, "the program has no output '{}'",
          escape(pair.present));
    presents_.push_back(static_cast<size_t>(present - results.begin()));
  }
  for (const Value* result : main.results()) {
    constant_.push_back(result->definition() != nullptr && result->definition()->literal());
  }
  for (const auto& parameter : main.parameters()) inputs_.push_back(input_of(*parameter));
  for (size_t i = 0; i < main.results().size(); ++i) {
    const bool present = std::ranges::find(presents_, i) != presents_.end();
    if (i == logits_ || present) continue;
    outputs_.push_back({main.result_names()[i]});
    token_axes_[main.result_names()[i]] = token_axis(program, names, *main.results()[i]);
  }
  token_by_token_ = std::ranges::any_of(main.instructions(), is_circular);
}

SequenceRunner::Input SequenceRunner::input_of(const Value& parameter) const {
  const auto& states = names_.states;
  const auto state = std::ranges::find(states, parameter.name(), &StatePair::past);
  const bool embedded =
      parameter.name() == names_.embeddings ||
      std::ranges::find(names_.token_inputs, parameter.name()) != names_.token_inputs.end();
  const std::pair<const std::string&, Role> roles[] = {
      {names_.tokens, Role::tokens},
      {names_.positions, Role::positions},
      {names_.mask, Role::mask},
      {names_.past_length, Role::past_length},
      {names_.new_length, Role::new_length},
      {names_.total_length, Role::total_length},
  };
  const auto* role = std::ranges::find_if(
      roles, [&](const auto& known) { return known.first == parameter.name(); });
  const auto cross = std::ranges::find(names_.cross, parameter.name(), &StatePair::past);
  const bool is_state = state != states.end() || cross != names_.cross.end();
  check(is_state || embedded || role != std::end(roles), ErrorKind::unsupported,
        "the input '{}' is {}: its purpose is unknown", escape(parameter.name()),
        parameter.type().to_string());
  Input input;
  input.name = parameter.name();
  input.role = is_state ? Role::past : embedded ? Role::embeddings : role->second;
  input.element = parameter.type().element;
  input.rank = parameter.type().is_ranked() ? parameter.type().rank() : 2;
  input.state = static_cast<size_t>(state - states.begin());
  if (state == states.end()) {
    input.state = states.size() + static_cast<size_t>(cross - names_.cross.begin());
  }
  const bool has_rank_2 = input.role == Role::tokens || input.role == Role::mask;
  const bool positions = input.role == Role::positions;
  check((!has_rank_2 || input.rank == 2) && (!positions || input.rank == 2 || input.rank == 3),
        ErrorKind::unsupported, "the input '{}' is {}, expected rank 2", escape(parameter.name()),
        parameter.type().to_string());
  return input;
}

Tensor SequenceRunner::make(const Input& input, const StepRequest& request,
                            const NamedTensors& embedded) const {
  const int64_t past = request.sequence->length();
  const auto count = static_cast<int64_t>(request.tokens.size());
  std::vector<int64_t> values;
  Dims dims = {1, count};
  switch (input.role) {
    case Role::tokens:
      for (const Token token : request.tokens) values.push_back(std::max<Token>(token, 0));
      break;
    case Role::embeddings:
      return embedded.at(input.name);
    case Role::positions: {
      const int64_t axes = input.rank == 3 ? 3 : 1;
      for (int64_t i = 0; i < axes * count; ++i) {
        values.push_back(position_of(request, i / count, i % count));
      }
      if (axes == 3) dims = {3, 1, count};
      break;
    }
    case Role::mask:
      dims = {1, past + count};
      values.assign(static_cast<size_t>(past + count), 1);
      break;
    case Role::past_length:
    case Role::new_length:
    case Role::total_length: {
      const bool with_past = input.role != Role::new_length;
      const bool with_new = input.role != Role::past_length;
      dims.assign(static_cast<size_t>(input.rank), 1);
      values = {(with_past ? past : 0) + (with_new ? count : 0)};
      break;
    }
    case Role::past: {
      const Tensor& held = request.sequence->tensor(input.state);
      if (held.data() != nullptr) return held;
      check(!layout_->states()[input.state].cross, ErrorKind::invalid_argument,
            "a sequence of {} tokens has no '{}': set the encoder's inputs before its tokens", past,
            escape(layout_->states()[input.state].name));
      return Tensor(input.element, layout_->states()[input.state].extents);
    }
  }
  return integer_tensor(input.element, std::move(dims), values);
}

// Requested logits, f32 [requested, vocabulary].
Tensor SequenceRunner::requested_logits(const StepRequest& request, const Tensor& given) const {
  const auto count = std::ssize(request.tokens);
  check(given.rank() > 0 && given.dims().back() > 0, ErrorKind::invalid_model,
        "the logits are {}, expected [1, tokens, vocabulary]",
        to_string(given.type(), given.dims()));
  const int64_t width = given.dims().back();
  const int64_t held = given.count() / width;
  check(held == count || held == 1 || (held > 0 && constant_[logits_]), ErrorKind::invalid_model,
        "a run of {} tokens returned logits of {}", count, held);
  const int64_t requested = request.logits.count(count);
  Tensor own(ElementType::f32, {requested, width});
  for (int64_t i = 0; i < requested; ++i) {
    const int64_t index = request.logits.at(i, count);
    const int64_t at = std::max<int64_t>(held - count + index, 0);
    check(held == count || index == count - 1 || constant_[logits_], ErrorKind::unsupported,
          "the logits of token {} of {} are requested, but the program returns only the last",
          index, count);
    const auto* from =
        static_cast<const std::byte*>(given.data()) + at * width * info(given.type()).bits / 8;
    convert(ElementType::f32, own.as<float>() + i * width, given.type(), from, width);
  }
  return own;
}

// Returns the presents; appends the requested logits to `logits`.
std::vector<Tensor> SequenceRunner::run_one(const StepRequest& request, const CancelToken* cancel,
                                            std::vector<Tensor>& logits) const {
  TokenList list;
  list.add(request);
  const NamedTensors embedded = embed(list, cancel);
  std::vector<Box> inputs;
  for (const Input& input : inputs_) inputs.emplace_back(make(input, request, embedded));
  RunOptions run;
  run.cancel = cancel;
  run.profiler = profiler_;
  const std::vector<Box> results = session_->run(inputs, run);
  const auto count = std::ssize(request.tokens);
  logits.push_back(requested_logits(request, results[logits_].tensor().dense()));
  if (request.outputs != nullptr) {
    const auto& names = plan_->program->main().result_names();
    for (const ProgramOutput& output : outputs_) {
      const auto at = std::ranges::find(names, output.name) - names.begin();
      (*request.outputs)[output.name] = results[static_cast<size_t>(at)].tensor().dense();
    }
  }
  std::vector<Tensor> presents;
  for (size_t i = 0; i < presents_.size(); ++i) {
    presents.push_back(results[presents_[i]].tensor());
    const SequenceState& state = layout_->states()[i];
    if (!constant_[presents_[i]]) continue;
    Dims extents = state.extents;
    if (state.axis >= 0) {
      extents[static_cast<size_t>(state.axis)] = request.sequence->length() + count;
    }
    presents.back() = Tensor(state.element, extents);
  }
  for (size_t i = presents.size(); i < layout_->states().size(); ++i) {
    presents.push_back(request.sequence->tensor(i));
  }
  return presents;
}

// Splits a request into single tokens where they cannot share a run.
std::vector<Tensor> SequenceRunner::run_request(const StepRequest& request,
                                                const CancelToken* cancel,
                                                std::vector<Tensor>& logits) const {
  if (!token_by_token_ || request.tokens.size() == 1) return run_one(request, cancel, logits);
  Sequence own = *request.sequence;
  const auto count = std::ssize(request.tokens);
  std::vector<Tensor> presents, token_logits;
  std::map<std::string, std::vector<Tensor>> outputs;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) own.commit(1, std::move(presents));
    NamedTensors given;
    const std::vector<EmbeddedTokens> embedded = cut_embedded(request.embedded, i, i + 1);
    std::vector<int64_t> positions;
    for (auto at = i; at < std::ssize(request.positions); at += count) {
      positions.push_back(request.positions[static_cast<size_t>(at)]);
    }
    presents = run_one({.sequence = &own,
                        .tokens = request.tokens.subspan(static_cast<size_t>(i), 1),
                        .outputs = request.outputs != nullptr ? &given : nullptr,
                        .embedded = embedded,
                        .positions = positions},
                       cancel, token_logits);
    for (auto& [name, tensor] : given) outputs[name].push_back(std::move(tensor));
  }
  std::vector<Tensor> requested = {Tensor(ElementType::f32, {0, token_logits.front().dims()[1]})};
  for (int64_t i = 0; i < request.logits.count(count); ++i) {
    requested.push_back(token_logits[static_cast<size_t>(request.logits.at(i, count))]);
  }
  logits.push_back(join_logits(requested));
  for (const ProgramOutput& output : outputs_) {
    if (request.outputs == nullptr) break;
    const std::vector<Tensor>& parts = outputs[output.name];
    const int axis = token_axes_.at(output.name);
    const bool alike = std::ranges::all_of(
        parts, [&](const Tensor& part) { return part.dims() == parts.front().dims(); });
    (*request.outputs)[output.name] = axis < 0 || !alike ? parts.back() : join_along(parts, axis);
  }
  return presents;
}

class SequenceRunner::Pending final : public PendingStep {
 public:
  Pending(const SequenceRunner& runner, std::span<const StepRequest> requests)
      : runner_(runner), requests_(requests), reruns_(requests.size()) {}

  Tensor run(const CancelToken* cancel) {
    std::vector<Tensor> logits;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (runner_.must_rerun(requests_[i])) reruns_[i] = runner_.make_rerun(requests_[i]);
      presents_.push_back(runner_.run_request(request(i), cancel, logits));
    }
    Tensor all = join_logits(logits);
    runner_.sample(requests_, StepLogits(all), cancel);
    return all;
  }

  void commit() override {
    for (size_t i = 0; i < requests_.size(); ++i) {
      request(i).sequence->commit(std::ssize(request(i).tokens), std::move(presents_[i]));
      runner_.remember(requests_[i], reruns_[i].get());
    }
  }

 private:
  const StepRequest& request(size_t i) const {
    return reruns_[i] != nullptr ? reruns_[i]->request : requests_[i];
  }

  const SequenceRunner& runner_;
  std::span<const StepRequest> requests_;
  std::vector<std::vector<Tensor>> presents_;
  std::vector<std::unique_ptr<Rerun>> reruns_;
};

std::unique_ptr<PendingStep> SequenceRunner::begin(std::span<const StepRequest> requests,
                                                   const CancelToken* cancel,
                                                   StepLogits& logits) const {
  auto pending = std::make_unique<Pending>(*this, requests);
  logits = StepLogits(pending->run(cancel));
  return pending;
}

void SequenceRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel,
                         StepLogits& logits) const {
  Pending pending(*this, requests);
  logits = StepLogits(pending.run(cancel));
  pending.commit();
}

}  // namespace lathe::llm

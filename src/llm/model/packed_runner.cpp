// SPDX-License-Identifier: MIT
#include "llm/model/packed_runner.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::llm {
namespace {

// Fills the box with repetitions of `values`, reusing its tensor if it fits.
template <class T>
void fill_integers(Box& box, ElementType type, std::span<const int64_t> dims,
                   std::span<const T> values) {
  constexpr ElementType kFrom = sizeof(T) == 8 ? ElementType::i64 : ElementType::i32;
  const bool fits = box.is_tensor() && box.tensor().type() == type &&
                    std::ranges::equal(box.tensor().dims(), dims) && held_alone(box.tensor());
  if (!fits) box = Box{Tensor(type, Dims(dims.begin(), dims.end()))};
  const Tensor& tensor = box.tensor();
  const int64_t bytes = bytes_for(type, std::ssize(values));
  for (int64_t at = 0; at < tensor.count(); at += std::ssize(values)) {
    std::byte* to = tensor.as<std::byte>() + at / std::ssize(values) * bytes;
    convert(type, to, kFrom, values.data(), std::ssize(values));
  }
}

void fill_integers(Box& box, ElementType type, std::span<const int64_t> dims,
                   const std::vector<int64_t>& values) {
  fill_integers<int64_t>(box, type, dims, std::span(values));
}

}  // namespace

PackedRunner::PackedRunner(PackedProgram packed, const DecoderInterface& names,
                           std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options)
    : StepRunner(std::move(packed.program), names, std::move(layout), options,
                 packed.length_switch) {
  outputs_ = std::move(packed.outputs);
  if (no_positions_.empty()) no_positions_ = std::move(packed.fixed_positions);
  for (const auto& parameter : plan_->program->main().parameters()) {
    inputs_.push_back(input_of(parameter->name(), packed));
  }
  find_places();
  find_starts();
}

PackedRunner::Input PackedRunner::input_of(const std::string& name,
                                           const PackedProgram& packed) const {
  using Kind = Input::Kind;
  const StepTableNames& tables = packed.tables;
  if (name == tables.token_bounds) return {Kind::bounds};
  if (name == tables.past_lengths) return {Kind::past};
  if (name == tables.state_slots) return {Kind::slots};
  for (const StepTableNames::Pages& pages : tables.pages) {
    if (name == pages.table) return {Kind::pages, layout_->place(pages.state).group};
  }
  for (const StepTableNames::Cross& cross : tables.cross) {
    const size_t group = layout_->place(cross.state).group;
    if (name == cross.table) return {Kind::pages, group};
    if (name == cross.lengths) return {Kind::cross_lengths, group};
  }
  if (name == packed.positions) return {Kind::positions};
  if (name == names_.tokens) return {Kind::tokens};
  if (name == packed.table_rows) return {Kind::table_rows};
  if (name == packed.token_numbers) return {Kind::token_numbers};
  if (name == packed.logit_positions) return {Kind::requested};
  return {Kind::embedded};
}

// Where the program's states are. Those that share a page table must share pages.
void PackedRunner::find_places() {
  std::map<std::string, size_t> groups;  // by the symbol of their pages
  for (const State* state : plan_->paged) {
    const CacheLayout::Place& place = layout_->place(state->name);
    places_.push_back(&place);
    memory_.push_back(layout_->memory(place, 0));
    if (state->kind == StateKind::carry) continue;
    const auto [known, added] = groups.emplace(state->type.dims->front().to_string(), place.group);
    check(known->second == place.group, ErrorKind::unsupported,
          "KV cache '{}' has another sliding window than those with which it shares pages",
          escape(state->name));
  }
}

void PackedRunner::StepTokens::clear() {
  TokenList::clear();
  for (std::vector<int64_t>& axis : positions) axis.clear();
  for (std::vector<int64_t>* list : {&indices, &table_rows, &requested}) list->clear();
}

void PackedRunner::fill_positions(const Value& parameter, const StepTokens& tokens,
                                  Box& input) const {
  const ElementType element = parameter.type().element;
  const auto count = std::ssize(tokens.tokens);
  if (parameter.type().rank() != 3) {
    const std::array<int64_t, 2> dims = {1, count};
    fill_integers(input, element, dims, tokens.positions[0]);
    return;
  }
  const std::array<int64_t, 3> dims = {3, 1, count};
  fill_integers(input, element, dims, tokens.positions[0]);
  const int64_t bytes = bytes_for(element, count);
  for (int64_t axis = 1; axis < 3; ++axis) {
    convert(element, input.tensor().as<std::byte>() + axis * bytes, ElementType::i64,
            tokens.positions[static_cast<size_t>(axis)].data(), count);
  }
}

void PackedRunner::fill_table(Input input, const StepTables& step, Box& box) const {
  using Kind = Input::Kind;
  const auto sequences = std::ssize(step.past_lengths());
  const auto fill = [&](std::span<const int32_t> values, std::initializer_list<int64_t> dims) {
    fill_integers<int32_t>(box, ElementType::i32, std::span(dims.begin(), dims.size()), values);
  };
  switch (input.kind) {
    case Kind::bounds:
      return fill(step.token_bounds(), {sequences + 1});
    case Kind::past:
      return fill(step.past_lengths(), {sequences});
    case Kind::slots:
      return fill(step.state_slots(), {sequences, 2});
    case Kind::cross_lengths:
      return fill(step.cross_lengths(input.group), {sequences});
    default:
      return fill(step.pages(input.group).ids, {sequences, step.pages(input.group).columns});
  }
}

void PackedRunner::fill_inputs(Scratch& scratch, const StepTables& step,
                               const CancelToken* cancel) const {
  using Kind = Input::Kind;
  const auto& parameters = plan_->program->main().parameters();
  const StepTokens& tokens = scratch.tokens;
  const std::array<int64_t, 2> dims = {1, std::ssize(tokens.tokens)};
  const std::array<int64_t, 1> requested = {std::ssize(tokens.requested)};
  const NamedTensors embedded = embed(tokens, cancel);
  scratch.inputs.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value& parameter = *parameters[i];
    const ElementType element = parameter.type().element;
    Box& input = scratch.inputs[i];
    if (const auto made = embedded.find(parameter.name()); made != embedded.end()) {
      input = Box(made->second);
      continue;
    }
    switch (inputs_[i].kind) {
      case Kind::positions:
        fill_positions(parameter, tokens, input);
        break;
      case Kind::tokens:
        fill_integers(input, element, dims, tokens.tokens);
        break;
      case Kind::table_rows:
        fill_integers(input, element, dims, tokens.table_rows);
        break;
      case Kind::token_numbers:
        fill_integers(input, element, dims, tokens.indices);
        break;
      case Kind::requested:
        fill_integers(input, element, requested, tokens.requested);
        break;
      case Kind::embedded:
        fail(ErrorKind::internal, "the step of {} tokens has no input '{}'", dims[1],
             escape(parameter.name()));
      default:
        fill_table(inputs_[i], step, input);
    }
  }
}

void PackedRunner::slice_outputs(std::span<const Box> results, int64_t begin, int64_t count,
                                 int64_t all, NamedTensors& outputs) const {
  const auto& names = plan_->program->main().result_names();
  for (const ProgramOutput& output : outputs_) {
    const auto at = std::ranges::find(names, output.name) - names.begin();
    const Tensor& result = results[static_cast<size_t>(at)].tensor();
    if (output.axis < 0) {
      outputs[output.name] = result.dense();
      continue;
    }
    // An axis may have several elements for each token.
    const int64_t each = result.dims()[static_cast<size_t>(output.axis)] / all;
    outputs[output.name] = slice_along(result, output.axis, begin * each, count * each);
  }
}

void PackedRunner::add_tokens(const StepRequest& request, StepTokens& tokens) const {
  const auto begin = std::ssize(tokens.tokens);
  const auto count = std::ssize(request.tokens);
  const int64_t past = request.sequence->length();
  const int64_t table = is_long(past + count) ? switch_->first_long : 0;
  tokens.add(request);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      tokens.positions[static_cast<size_t>(axis)].push_back(position_of(request, axis, i));
    }
    tokens.indices.push_back(past + i);
    const int64_t position = tokens.positions[0].back();
    // The LongRoPE caches of long sequences follow those of short ones.
    check(!switch_ || table > 0 || position < switch_->first_long, ErrorKind::invalid_argument,
          "position id {} of a sequence of {} tokens exceeds the LongRoPE caches of short "
          "sequences, which "
          "have {} positions",
          position, past + count, switch_ ? switch_->first_long : 0);
    tokens.table_rows.push_back(table + position);
  }
  for (int64_t i = 0; i < request.logits.count(count); ++i) {
    tokens.requested.push_back(begin + request.logits.at(i, count));
  }
}

void PackedRunner::gather_tokens(std::span<const StepRequest> requests, Scratch& scratch,
                                 StepTables& step) const {
  scratch.tokens.clear();
  scratch.reruns.clear();
  scratch.reruns.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    std::unique_ptr<Rerun>& rerun = scratch.reruns[i];
    if (must_rerun(requests[i])) rerun = make_rerun(requests[i]);
    const StepRequest& request = rerun != nullptr ? rerun->request : requests[i];
    add_tokens(request, scratch.tokens);
    step.add(*request.sequence, std::ssize(request.tokens));
  }
}

// A failed step discards its scratch.
class PackedRunner::Pending final : public PendingStep {
 public:
  Pending(const PackedRunner& runner, std::span<const StepRequest> requests)
      : runner_(runner),
        requests_(requests),
        scratch_(take_scratch(runner)),
        step_(*runner.layout_, scratch_->tables) {}

  void run(const CancelToken* cancel, StepLogits& logits) {
    runner_.gather_tokens(requests_, *scratch_, step_);
    step_.prepare();
    runner_.fill_inputs(*scratch_, step_, cancel);
    scratch_->results.resize(runner_.plan().program->main().results().size());
    RunOptions run;
    run.cancel = cancel;
    run.profiler = runner_.profiler_;
    scratch_->memory = runner_.memory_;
    for (size_t i = 0; i < scratch_->memory.size(); ++i) {
      scratch_->memory[i].dims[0] = step_.pages(*runner_.places_[i]);
    }
    run.pages = scratch_->memory;
    run.devices = runner_.result_devices_;
    Box& given = scratch_->results[runner_.logits_];
    const Device* device = runner_.result_devices_[runner_.logits_];
    given = Box{logits.device() == device ? logits.take() : Tensor()};
    runner_.session_->run(scratch_->inputs, scratch_->results, run);
    const StepTokens& tokens = scratch_->tokens;
    logits.set(std::move(std::get<Tensor>(given.value)), device);
    given = Box{};
    runner_.sample(requests_, logits, cancel);
    bool shared = false;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].outputs == nullptr) continue;
      const int64_t count = std::ssize(requests_[i].tokens);
      runner_.slice_outputs(scratch_->results, tokens.ends[i] - count, count,
                            std::ssize(tokens.tokens), *requests_[i].outputs);
      shared = true;
    }
    if (shared) scratch_->results.clear();
  }

  void commit() override {
    step_.commit();
    for (size_t i = 0; i < requests_.size(); ++i) {
      runner_.remember(requests_[i], scratch_->reruns[i].get());
    }
    scratch_->reruns.clear();
    runner_.idle_.release(std::move(scratch_));
  }

 private:
  static std::unique_ptr<Scratch> take_scratch(const PackedRunner& runner) {
    std::unique_ptr<Scratch> scratch = runner.idle_.acquire();
    return scratch != nullptr ? std::move(scratch) : std::make_unique<Scratch>();
  }

  const PackedRunner& runner_;
  std::span<const StepRequest> requests_;
  std::unique_ptr<Scratch> scratch_;
  StepTables step_;
};

void PackedRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel,
                       StepLogits& logits) const {
  Pending pending(*this, requests);
  pending.run(cancel, logits);
  pending.commit();
}

std::unique_ptr<PendingStep> PackedRunner::begin(std::span<const StepRequest> requests,
                                                 const CancelToken* cancel,
                                                 StepLogits& logits) const {
  auto pending = std::make_unique<Pending>(*this, requests);
  pending->run(cancel, logits);
  return pending;
}

}  // namespace lathe::llm

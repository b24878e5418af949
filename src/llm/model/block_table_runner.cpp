// SPDX-License-Identifier: MIT
#include "llm/model/block_table_runner.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::llm {
namespace {

const Value* find_parameter(const Program& program, const std::string& name) {
  for (const auto& parameter : program.main().parameters()) {
    if (parameter->name() == name) return parameter.get();
  }
  return nullptr;
}

const std::vector<Dim>& cache_dims(const Program& program, const StatePair& pair) {
  const Value* past = find_parameter(program, pair.past);
  check(past != nullptr && past->type().is_ranked() && past->type().rank() == 4 &&
            (*past->type().dims)[2].is_constant() && (*past->type().dims)[3].is_constant(),
        ErrorKind::unsupported,
        "the KV cache '{}' is {}, expected [blocks, block length, heads, size]", escape(pair.past),
        past == nullptr ? "missing" : past->type().to_string());
  return *past->type().dims;
}

std::shared_ptr<const CacheLayout> rows_layout(const Program& program,
                                               const DecoderInterface& names) {
  std::vector<SequenceState> states;
  for (const StatePair& pair : names.states) {
    const std::vector<Dim>& dims = cache_dims(program, pair);
    SequenceState state;
    state.name = pair.past;
    state.past = pair.past;
    state.present = pair.present;
    state.element = find_parameter(program, pair.past)->type().element;
    state.axis = 0;
    state.extents = {0, *dims[2].constant(), *dims[3].constant()};
    states.push_back(std::move(state));
  }
  return std::make_shared<const CacheLayout>(std::move(states), 1, true);
}

int64_t token_bytes(const SequenceState& state) {
  return state.extents[1] * state.extents[2] * info(state.element).bits / 8;
}

}  // namespace

BlockTableRunner::BlockTableRunner(const Program& program, const DecoderInterface& names,
                                   const RunnerOptions& options)
    : StepRunner(program.clone(), names, rows_layout(program, names), options),
      block_length_(options.page_slots) {
  const auto& results = program.main().result_names();
  for (const StatePair& pair : names_.states) {
    const std::vector<Dim>& dims = cache_dims(program, pair);
    block_length_ = dims[1].constant().value_or(block_length_);
    most_blocks_ = dims[0].constant().value_or(0);
    const auto present = std::ranges::find(results, pair.present);
    check(present != results.end(), ErrorKind::invalid_argument, "the program has no output '{}'",
          escape(pair.present));
    presents_.push_back(static_cast<size_t>(present - results.begin()));
  }
  check(!names_.states.empty() && block_length_ > 0, ErrorKind::unsupported,
        "a program with the input '{}' has {} KV caches with blocks of {} positions",
        escape(names_.block_table), names_.states.size(), block_length_);
}

// Adds requests until the file's blocks are full.
BlockTableRunner::Batch BlockTableRunner::next_batch(std::span<const StepRequest> requests) const {
  Batch batch;
  for (const StepRequest& request : requests) {
    const int64_t end = request.sequence->length() + std::ssize(request.tokens);
    const int64_t blocks = (end + block_length_ - 1) / block_length_;
    check(most_blocks_ == 0 || blocks <= most_blocks_, ErrorKind::invalid_argument,
          "{} tokens require {} blocks, but the model's KV caches have {}", end, blocks,
          most_blocks_);
    if (most_blocks_ > 0 && batch.blocks + blocks > most_blocks_) break;
    batch.first_block.push_back(batch.blocks);
    batch.blocks += blocks;
    batch.rows += std::ssize(request.tokens);
    batch.widest = std::max(batch.widest, blocks);
  }
  batch.requests = requests.first(batch.first_block.size());
  return batch;
}

Tensor BlockTableRunner::make_cache(size_t index, const Batch& batch) const {
  const SequenceState& state = layout_->states()[index];
  const int64_t blocks = most_blocks_ > 0 ? most_blocks_ : batch.blocks;
  Tensor cache(state.element, {blocks, block_length_, state.extents[1], state.extents[2]});
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    const Tensor held = batch.requests[i].sequence->tensor(index).dense();
    if (held.data() == nullptr || held.count() == 0) continue;
    auto* to = cache.as<std::byte>() + batch.first_block[i] * block_length_ * token_bytes(state);
    std::memcpy(to, held.data(), static_cast<size_t>(held.byte_size()));
  }
  return cache;
}

Box BlockTableRunner::make_input(const Value& parameter, const Batch& batch) const {
  const std::string& name = parameter.name();
  const auto state = std::ranges::find(names_.states, name, &StatePair::past);
  if (state != names_.states.end()) {
    return Box(make_cache(static_cast<size_t>(state - names_.states.begin()), batch));
  }
  const auto sequences = std::ssize(batch.requests);
  std::vector<int64_t> values;
  Dims dims;
  if (name == names_.block_table) {
    dims = {sequences, batch.widest};
    for (const int64_t first : batch.first_block) {
      for (int64_t i = 0; i < batch.widest; ++i) {
        values.push_back(std::min(first + i, batch.blocks - 1));
      }
    }
  } else if (name == names_.token_bounds) {
    values.push_back(0);
    for (const StepRequest& request : batch.requests) {
      values.push_back(values.back() + std::ssize(request.tokens));
    }
  } else if (name == names_.past_lengths) {
    for (const StepRequest& request : batch.requests) values.push_back(request.sequence->length());
  } else if (name == names_.block_metadata) {
    // Bounds for devices: most new tokens, longest sequence, and number of sequences.
    values = {0, 0, sequences};
    for (const StepRequest& request : batch.requests) {
      const auto rows = std::ssize(request.tokens);
      values[0] = std::max<int64_t>(values[0], rows);
      values[1] = std::max<int64_t>(values[1], request.sequence->length() + rows);
    }
  } else if (name == names_.tokens) {
    for (const StepRequest& request : batch.requests) {
      values.insert(values.end(), request.tokens.begin(), request.tokens.end());
    }
  } else if (name == names_.positions) {
    for (const StepRequest& request : batch.requests) {
      for (int64_t i = 0; i < std::ssize(request.tokens); ++i) {
        values.push_back(position_of(request, 0, i));
      }
    }
  } else {
    fail(ErrorKind::unsupported, "the input '{}' is {}: its purpose is unknown", escape(name),
         parameter.type().to_string());
  }
  if (dims.empty()) dims = {std::ssize(values)};
  return Box(integer_tensor(parameter.type().element, std::move(dims), values));
}

// The program returns logits of all tokens, or of each sequence's last.
void BlockTableRunner::take_logits(const Batch& batch, const Tensor& given,
                                   std::vector<Tensor>& logits) const {
  check(given.rank() > 0 && given.dims().back() > 0, ErrorKind::invalid_model,
        "the logits are {}, expected [tokens, vocabulary]", to_string(given.type(), given.dims()));
  const int64_t width = given.dims().back();
  const int64_t held = given.count() / width;
  const bool all = held == batch.rows;
  check(all || held == std::ssize(batch.requests), ErrorKind::invalid_model,
        "a run of {} tokens of {} sequences returned logits of {}", batch.rows,
        batch.requests.size(), held);
  int64_t begin = 0;
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    const StepRequest& request = batch.requests[i];
    const auto rows = std::ssize(request.tokens);
    const int64_t wanted = request.logits.count(rows);
    Tensor own(ElementType::f32, {wanted, width});
    for (int64_t j = 0; j < wanted; ++j) {
      const int64_t row = request.logits.at(j, rows);
      check(all || row == rows - 1, ErrorKind::unsupported,
            "the logits of token {} of {} are requested, but the program returns only the last",
            row, rows);
      const int64_t at = all ? begin + row : static_cast<int64_t>(i);
      const auto* from =
          static_cast<const std::byte*>(given.data()) + at * width * info(given.type()).bits / 8;
      convert(ElementType::f32, own.as<float>() + j * width, given.type(), from, width);
    }
    logits.push_back(std::move(own));
    begin += rows;
  }
}

void BlockTableRunner::run_batch(const Batch& batch, const CancelToken* cancel,
                                 std::vector<Tensor>& logits,
                                 std::vector<std::vector<Tensor>>& presents) const {
  std::vector<Box> inputs;
  for (const auto& parameter : plan_->program->main().parameters()) {
    inputs.push_back(make_input(*parameter, batch));
  }
  RunOptions run;
  run.cancel = cancel;
  run.profiler = profiler_;
  const std::vector<Box> results = session_->run(inputs, run);
  take_logits(batch, results[logits_].tensor().dense(), logits);
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    const StepRequest& request = batch.requests[i];
    std::vector<Tensor> own;
    for (size_t index = 0; index < presents_.size(); ++index) {
      const SequenceState& state = layout_->states()[index];
      const Tensor cache = results[presents_[index]].tensor().dense();
      const int64_t end = request.sequence->length() + std::ssize(request.tokens);
      const int64_t first = batch.first_block[i] * block_length_;
      check(
          cache.type() == state.element && cache.byte_size() >= (first + end) * token_bytes(state),
          ErrorKind::invalid_model, "the KV cache '{}' is {} after the run", escape(state.present),
          to_string(cache.type(), cache.dims()));
      Tensor rows(state.element, {end, state.extents[1], state.extents[2]});
      std::memcpy(rows.data(), cache.as<std::byte>() + first * token_bytes(state),
                  static_cast<size_t>(rows.byte_size()));
      own.push_back(std::move(rows));
    }
    presents.push_back(std::move(own));
  }
}

void BlockTableRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel,
                           StepLogits& joined) const {
  std::vector<Tensor> logits;
  std::vector<std::vector<Tensor>> presents;
  while (presents.size() < requests.size()) {
    run_batch(next_batch(requests.subspan(presents.size())), cancel, logits, presents);
  }
  joined = StepLogits(join_logits(logits));
  sample(requests, joined, cancel);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sequence->commit(std::ssize(requests[i].tokens), std::move(presents[i]), false);
    remember(requests[i], nullptr);
  }
}

}  // namespace lathe::llm

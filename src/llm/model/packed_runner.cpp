// SPDX-License-Identifier: MIT
#include "llm/model/packed_runner.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::llm {
namespace {

// The numbers, as often as the extents say, in the box's own tensor if that fits.
void fill_integers(Box& box, ElementType type, std::span<const int64_t> dims,
                   std::span<const int64_t> numbers) {
  const bool fits = box.is_tensor() && box.tensor().type() == type &&
                    std::ranges::equal(box.tensor().dims(), dims) && held_alone(box.tensor());
  if (!fits) box = Box{Tensor(type, Dims(dims.begin(), dims.end()))};
  const Tensor& tensor = box.tensor();
  const int64_t bytes = bytes_for(type, std::ssize(numbers));
  for (int64_t at = 0; at < tensor.count(); at += std::ssize(numbers)) {
    std::byte* to = tensor.as<std::byte>() + at / std::ssize(numbers) * bytes;
    convert(type, to, ElementType::i64, numbers.data(), std::ssize(numbers));
  }
}

}  // namespace

PackedRunner::PackedRunner(PackedProgram packed, const DecoderInterface& names,
                           std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options)
    : StepRunner(std::move(packed.program), names, std::move(layout), options,
                 packed.length_switch),
      positions_(std::move(packed.positions)),
      token_numbers_(std::move(packed.token_numbers)),
      table_rows_(std::move(packed.table_rows)) {
  outputs_ = std::move(packed.outputs);
  if (no_positions_.empty()) no_positions_ = std::move(packed.fixed_positions);
}

void PackedRunner::Rows::clear() {
  TokenList::clear();
  for (std::vector<int64_t>& axis : positions) axis.clear();
  for (std::vector<int64_t>* list : {&numbers, &table_rows, &wanted}) list->clear();
}

void PackedRunner::fill_positions(const Value& parameter, const Rows& rows, Box& input) const {
  const ElementType element = parameter.type().element;
  const auto count = std::ssize(rows.tokens);
  if (parameter.type().rank() != 3) {
    const std::array<int64_t, 2> dims = {1, count};
    fill_integers(input, element, dims, rows.positions[0]);
    return;
  }
  const std::array<int64_t, 3> dims = {3, 1, count};
  fill_integers(input, element, dims, rows.positions[0]);
  const int64_t bytes = bytes_for(element, count);
  for (int64_t axis = 1; axis < 3; ++axis) {
    convert(element, input.tensor().as<std::byte>() + axis * bytes, ElementType::i64,
            rows.positions[static_cast<size_t>(axis)].data(), count);
  }
}

void PackedRunner::fill_inputs(Scratch& scratch, const CancelToken* cancel) const {
  const auto& parameters = plan_->program->main().parameters();
  const Rows& rows = scratch.rows;
  const auto count = std::ssize(rows.tokens);
  const NamedTensors embedded = embed(rows, cancel);
  scratch.inputs.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value& parameter = *parameters[i];
    const ElementType element = parameter.type().element;
    Box& input = scratch.inputs[i];
    const std::array<int64_t, 2> dims = {1, count};
    if (const auto made = embedded.find(parameter.name()); made != embedded.end()) {
      input = Box(made->second);
    } else if (parameter.name() == positions_) {
      fill_positions(parameter, rows, input);
    } else if (parameter.name() == names_.tokens) {
      fill_integers(input, element, dims, rows.tokens);
    } else if (parameter.name() == table_rows_) {
      fill_integers(input, element, dims, rows.table_rows);
    } else if (parameter.name() == token_numbers_) {
      fill_integers(input, element, dims, rows.numbers);
    } else {
      const std::array<int64_t, 1> wanted = {std::ssize(rows.wanted)};
      fill_integers(input, element, wanted, rows.wanted);
    }
  }
}

void PackedRunner::give_outputs(std::span<const Box> results, int64_t begin, int64_t count,
                                int64_t all, NamedTensors& given) const {
  const auto& names = plan_->program->main().result_names();
  for (const ProgramOutput& output : outputs_) {
    const auto at = std::ranges::find(names, output.name) - names.begin();
    const Tensor& result = results[static_cast<size_t>(at)].tensor();
    if (output.axis < 0) {
      given[output.name] = result.dense();
      continue;
    }
    // An axis may have several elements for each row.
    const int64_t each = result.dims()[static_cast<size_t>(output.axis)] / all;
    given[output.name] = cut_rows(result, output.axis, begin * each, count * each);
  }
}

void PackedRunner::add_rows(const StepRequest& request, Rows& rows) const {
  const auto begin = std::ssize(rows.tokens);
  const auto count = std::ssize(request.tokens);
  const int64_t past = request.sequence->length();
  const int64_t table = is_long(past + count) ? switch_->first_long : 0;
  rows.add(request);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      rows.positions[static_cast<size_t>(axis)].push_back(position_of(request, axis, row));
    }
    rows.numbers.push_back(past + row);
    const int64_t position = rows.positions[0].back();
    // Behind the tables of short sequences those of long ones begin.
    check(
        !switch_ || table > 0 || position < switch_->first_long, ErrorKind::invalid_argument,
        "position {} of a sequence of {} rows lies behind the tables of short ones, which have {}",
        position, past + count, switch_ ? switch_->first_long : 0);
    rows.table_rows.push_back(table + position);
  }
  for (int64_t i = 0; i < request.logits.count(count); ++i) {
    rows.wanted.push_back(begin + request.logits.at(i, count));
  }
}

void PackedRunner::gather_rows(std::span<const StepRequest> requests, Scratch& scratch,
                               PackedStep& step) const {
  scratch.rows.clear();
  scratch.anew.clear();
  scratch.anew.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    std::unique_ptr<Rerun>& anew = scratch.anew[i];
    if (must_begin_anew(requests[i])) anew = make_rerun(requests[i]);
    const StepRequest& request = anew != nullptr ? anew->request : requests[i];
    add_rows(request, scratch.rows);
    step.add(*request.sequence, std::ssize(request.tokens));
  }
}

Tensor PackedRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel) const {
  Tensor logits;
  run_into(requests, cancel, logits);
  return logits;
}

// A step that fails takes its scratch with it.
class PackedRunner::Pending final : public PendingStep {
 public:
  Pending(const PackedRunner& runner, std::span<const StepRequest> requests)
      : runner_(runner),
        requests_(requests),
        scratch_(take_scratch(runner)),
        step_(*runner.layout_, scratch_->tables) {}

  void run(const CancelToken* cancel, Tensor& logits) {
    runner_.gather_rows(requests_, *scratch_, step_);
    runner_.fill_inputs(*scratch_, cancel);
    scratch_->results.resize(runner_.plan().program->main().results().size());
    RunOptions run;
    run.cancel = cancel;
    run.profiler = runner_.profiler_;
    run.step = &step_;
    runner_.session_->run(scratch_->inputs, scratch_->results, run);
    const Rows& rows = scratch_->rows;
    const Tensor& given = scratch_->results[runner_.logits_].tensor();
    const auto wanted = std::ssize(rows.wanted);
    make_matrix(logits, wanted, given.dims().back());
    convert(ElementType::f32, logits.data(), given.type(), given.data(), logits.count());
    choose(requests_, logits);
    bool shared = false;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].outputs == nullptr) continue;
      const int64_t count = std::ssize(requests_[i].tokens);
      runner_.give_outputs(scratch_->results, rows.ends[i] - count, count, std::ssize(rows.tokens),
                           *requests_[i].outputs);
      shared = true;
    }
    // Logits of a few rows are kept for the next step; those of many rows may be large.
    if (shared || wanted > std::ssize(requests_)) scratch_->results.clear();
  }

  void commit() override {
    step_.commit();
    for (size_t i = 0; i < requests_.size(); ++i) {
      runner_.remember(requests_[i], scratch_->anew[i].get());
    }
    scratch_->anew.clear();
    runner_.idle_.give(std::move(scratch_));
  }

 private:
  static std::unique_ptr<Scratch> take_scratch(const PackedRunner& runner) {
    std::unique_ptr<Scratch> scratch = runner.idle_.take();
    return scratch != nullptr ? std::move(scratch) : std::make_unique<Scratch>();
  }

  const PackedRunner& runner_;
  std::span<const StepRequest> requests_;
  std::unique_ptr<Scratch> scratch_;
  PackedStep step_;
};

void PackedRunner::run_into(std::span<const StepRequest> requests, const CancelToken* cancel,
                            Tensor& logits) const {
  Pending pending(*this, requests);
  pending.run(cancel, logits);
  pending.commit();
}

std::unique_ptr<PendingStep> PackedRunner::begin(std::span<const StepRequest> requests,
                                                 const CancelToken* cancel, Tensor& logits) const {
  auto pending = std::make_unique<Pending>(*this, requests);
  pending->run(cancel, logits);
  return pending;
}

}  // namespace lathe::llm

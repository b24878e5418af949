// SPDX-License-Identifier: MIT
#include "llm/model/packed_runner.h"

#include <algorithm>
#include <array>

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
      table_rows_(std::move(packed.table_rows)) {
  outputs_ = std::move(packed.outputs);
}

void PackedRunner::Rows::add(int64_t token, int64_t position, int64_t table_row) {
  tokens.push_back(token);
  positions.push_back(position);
  table_rows.push_back(table_row);
}

void PackedRunner::Rows::clear() {
  for (std::vector<int64_t>* list : {&tokens, &positions, &table_rows, &wanted, &ends}) {
    list->clear();
  }
}

void PackedRunner::fill_inputs(Scratch& scratch) const {
  const auto& parameters = plan_->program->main().parameters();
  const Rows& rows = scratch.rows;
  const auto count = std::ssize(rows.tokens);
  scratch.inputs.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value& parameter = *parameters[i];
    const ElementType element = parameter.type().element;
    Box& input = scratch.inputs[i];
    if (parameter.name() == positions_) {
      const int rank = parameter.type().rank();
      const int64_t copies = rank == 3 ? 3 : 1;
      const std::array<int64_t, 3> dims = {copies, 1, count};
      fill_integers(input, element, rank == 3 ? std::span(dims) : std::span(dims).last(2),
                    rows.positions);
    } else if (parameter.name() == names_.tokens || parameter.name() == table_rows_) {
      const std::array<int64_t, 2> dims = {1, count};
      fill_integers(input, element, dims,
                    parameter.name() == table_rows_ ? rows.table_rows : rows.tokens);
    } else {
      const std::array<int64_t, 1> dims = {std::ssize(rows.wanted)};
      fill_integers(input, element, dims, rows.wanted);
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

void PackedRunner::gather_rows(std::span<const StepRequest> requests, Scratch& scratch,
                               PackedStep& step) const {
  Rows& rows = scratch.rows;
  rows.clear();
  scratch.anew.clear();
  scratch.anew.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const StepRequest& request = requests[i];
    std::unique_ptr<Sequence>& anew = scratch.anew[i];
    const int64_t past = request.sequence->length();
    const int64_t end = past + std::ssize(request.tokens);
    if (must_begin_anew(request)) anew = std::make_unique<Sequence>(layout_);
    const int64_t table = is_long(end) ? switch_->first_long : 0;
    int64_t at = past;
    if (anew != nullptr) {
      at = 0;
      for (const int64_t token : request.sequence->tokens()) {
        rows.add(token, at, table + at);
        ++at;
      }
    }
    for (const Token token : request.tokens) {
      const auto row = std::ssize(rows.tokens);
      rows.add(token, at, table + at);
      ++at;
      if (request.all_logits || at == end) rows.wanted.push_back(row);
    }
    rows.ends.push_back(std::ssize(rows.tokens));
    step.add(anew != nullptr ? *anew : *request.sequence, anew != nullptr ? end : end - past);
  }
}

// For programs that may have to run rows again.
void PackedRunner::remember(std::span<const StepRequest> requests, Scratch& scratch) const {
  for (size_t i = 0; i < requests.size() && switch_; ++i) {
    Sequence& sequence = *requests[i].sequence;
    if (Sequence* anew = scratch.anew[i].get(); anew != nullptr) {
      anew->remember(sequence.tokens());
      sequence = std::move(*anew);
    }
    sequence.remember(requests[i].tokens);
  }
  scratch.anew.clear();
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
    runner_.fill_inputs(*scratch_);
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
    runner_.remember(requests_, *scratch_);
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

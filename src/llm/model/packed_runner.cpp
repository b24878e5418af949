// SPDX-License-Identifier: MIT
#include "llm/model/packed_runner.h"

#include <algorithm>

#include "llm/model/packed_step.h"
#include "tensor/convert.h"

namespace lathe::llm {
namespace {

std::shared_ptr<const CacheLayout> layout_of(PackedProgram& packed, const RunnerOptions& options) {
  return std::make_shared<const CacheLayout>(std::move(packed.states), options.page_rows);
}

}  // namespace

PackedRunner::PackedRunner(PackedProgram packed, const DecoderInterface& names,
                           const RunnerOptions& options)
    : StepRunner(std::move(packed.program), names, layout_of(packed, options), options,
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

std::vector<Box> PackedRunner::make_inputs(const Rows& rows) const {
  std::vector<Box> inputs;
  const auto count = static_cast<int64_t>(rows.tokens.size());
  for (const auto& parameter : plan_->program->main().parameters()) {
    const ElementType element = parameter->type().element;
    const bool positions = parameter->name() == positions_;
    if (positions && parameter->type().rank() == 3) {
      std::vector<int64_t> all;
      for (int i = 0; i < 3; ++i) {
        all.insert(all.end(), rows.positions.begin(), rows.positions.end());
      }
      inputs.emplace_back(integer_tensor(element, {3, 1, count}, all));
    } else if (parameter->name() == names_.tokens || positions ||
               parameter->name() == table_rows_) {
      const std::vector<int64_t>& values = positions                          ? rows.positions
                                           : parameter->name() == table_rows_ ? rows.table_rows
                                                                              : rows.tokens;
      inputs.emplace_back(integer_tensor(element, {1, count}, values));
    } else {
      const auto wanted = static_cast<int64_t>(rows.wanted.size());
      inputs.emplace_back(integer_tensor(element, {wanted}, rows.wanted));
    }
  }
  return inputs;
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

Tensor PackedRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel) const {
  std::vector<std::unique_ptr<Sequence>> anew(requests.size());
  PackedStep step(*layout_);
  Rows rows;
  std::vector<int64_t> ends;  // behind each request's rows
  for (size_t i = 0; i < requests.size(); ++i) {
    const StepRequest& request = requests[i];
    const int64_t past = request.sequence->length();
    const int64_t end = past + static_cast<int64_t>(request.tokens.size());
    if (must_begin_anew(request)) anew[i] = std::make_unique<Sequence>(layout_);
    const int64_t table = is_long(end) ? switch_->first_long : 0;
    int64_t at = past;
    if (anew[i] != nullptr) {
      at = 0;
      for (const int64_t token : request.sequence->tokens()) {
        rows.add(token, at, table + at);
        ++at;
      }
    }
    for (const Token token : request.tokens) {
      const auto row = static_cast<int64_t>(rows.tokens.size());
      rows.add(token, at, table + at);
      ++at;
      if (request.all_logits || at == end) rows.wanted.push_back(row);
    }
    ends.push_back(std::ssize(rows.tokens));
    step.add(anew[i] != nullptr ? *anew[i] : *request.sequence,
             anew[i] != nullptr ? end : end - past);
  }
  RunOptions run;
  run.cancel = cancel;
  run.step = &step;
  const std::vector<Box> results = session_->run(make_inputs(rows), run);
  const Tensor& given = results[logits_].tensor();
  Tensor result(ElementType::f32, {static_cast<int64_t>(rows.wanted.size()), given.dims().back()});
  convert(ElementType::f32, result.data(), given.type(), given.data(), result.count());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].outputs == nullptr) continue;
    const int64_t count = std::ssize(requests[i].tokens);
    give_outputs(results, ends[i] - count, count, std::ssize(rows.tokens), *requests[i].outputs);
  }
  step.commit();
  for (size_t i = 0; i < requests.size() && switch_; ++i) {
    Sequence& sequence = *requests[i].sequence;
    if (anew[i] != nullptr) {
      anew[i]->remember(sequence.tokens());
      sequence = std::move(*anew[i]);
    }
    sequence.remember({requests[i].tokens.begin(), requests[i].tokens.end()});
  }
  return result;
}

}  // namespace lathe::llm

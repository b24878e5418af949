// SPDX-License-Identifier: MIT
#include "llm/model/packed_runner.h"

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
    : StepRunner(std::move(packed.program), names, layout_of(packed, options), options) {
  for (const auto& parameter : plan_->program->main().parameters()) {
    if (parameter->name() == names_.tokens) token_type_ = parameter->type().element;
    if (parameter->name() != names_.positions) continue;
    position_rows_ = parameter->type().rank() == 3 ? 3 : 1;
    position_type_ = parameter->type().element;
  }
}

Tensor PackedRunner::run(std::span<const StepRequest> requests, const CancelToken* cancel) const {
  PackedStep step(*layout_);
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;
  std::vector<int64_t> wanted;
  for (const StepRequest& request : requests) {
    const auto count = static_cast<int64_t>(request.tokens.size());
    const auto begin = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < count; ++i) {
      positions.push_back(request.sequence->length() + i);
      if (request.all_logits || i + 1 == count) wanted.push_back(begin + i);
    }
    tokens.insert(tokens.end(), request.tokens.begin(), request.tokens.end());
    step.add(*request.sequence, count);
  }
  const auto rows = static_cast<int64_t>(tokens.size());
  std::vector<Box> inputs;
  inputs.emplace_back(integer_tensor(token_type_, {1, rows}, tokens));
  if (position_rows_ > 0) {
    Dims dims = {1, rows};
    if (position_rows_ == 3) dims.insert(dims.begin(), 3);
    std::vector<int64_t> all;
    for (int i = 0; i < position_rows_; ++i)
      all.insert(all.end(), positions.begin(), positions.end());
    inputs.emplace_back(integer_tensor(position_type_, dims, all));
  }
  const auto count = static_cast<int64_t>(wanted.size());
  inputs.emplace_back(integer_tensor(ElementType::i64, {count}, wanted));
  RunOptions run;
  run.cancel = cancel;
  run.step = &step;
  const std::vector<Box> results = session_->run(inputs, run);
  const Tensor& given = results[logits_].tensor();
  Tensor result(ElementType::f32, {count, given.dims().back()});
  convert(ElementType::f32, result.data(), given.type(), given.data(), result.count());
  step.commit();
  return result;
}

}  // namespace lathe::llm

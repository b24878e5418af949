// SPDX-License-Identifier: MIT
#include "llm/model/step_runner.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/item_runner.h"
#include "llm/model/packed_runner.h"
#include "tensor/convert.h"

namespace lathe::llm {

StepRunner::StepRunner(std::unique_ptr<Program> program, const DecoderInterface& names,
                       std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options)
    : names_(names), layout_(std::move(layout)) {
  const Module& main = program->main();
  const auto& results = main.result_names();
  const auto logits = std::ranges::find(results, names_.logits);
  check(logits != results.end(), ErrorKind::invalid_argument, "the program has no output '{}'",
        escape(names_.logits));
  logits_ = static_cast<size_t>(logits - results.begin());
  const Type& type = main.results()[logits_]->type();
  if (type.is_ranked() && type.rank() > 0) vocabulary_ = type.dims->back().constant().value_or(0);
  CompileOptions compile_options;
  compile_options.target = options.target;
  compile_options.compute = options.compute;
  plan_ = compile(std::move(program), compile_options);
  SessionOptions session_options;
  session_options.pool = options.pool;
  session_ = std::make_unique<SharedSession>(plan_, session_options);
}

std::unique_ptr<StepRunner> make_step_runner(const Program& program, const DecoderInterface& names,
                                             const RunnerOptions& options) {
  PackedProgram packed = pack_sequences(program, names);
  if (packed.program != nullptr) {
    return std::make_unique<PackedRunner>(std::move(packed), names, options);
  }
  try {
    return std::make_unique<ItemRunner>(program, names, packed.offender, options);
  } catch (Error& error) {
    error.note(fmt::format("and rows cannot be packed: {}", packed.offender));
    throw;
  }
}

Tensor integer_tensor(ElementType type, Dims dims, std::span<const int64_t> values) {
  Tensor tensor(type, std::move(dims));
  convert(type, tensor.data(), ElementType::i64, values.data(),
          static_cast<int64_t>(values.size()));
  return tensor;
}

}  // namespace lathe::llm

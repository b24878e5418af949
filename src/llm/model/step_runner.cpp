// SPDX-License-Identifier: MIT
#include "llm/model/step_runner.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "llm/model/item_runner.h"
#include "llm/model/packed_runner.h"
#include "llm/model/paged_runner.h"
#include "passes/unblock_caches.h"
#include "tensor/convert.h"

namespace lathe::llm {

StepRunner::StepRunner(std::unique_ptr<Program> program, const DecoderInterface& names,
                       std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options,
                       std::optional<LengthSwitch> length_switch)
    : names_(names), layout_(std::move(layout)), switch_(length_switch) {
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
  compile_options.pool = options.pool;
  plan_ = compile(std::move(program), compile_options);
  SessionOptions session_options;
  session_options.pool = options.pool;
  session_ = std::make_unique<SharedSession>(plan_, session_options);
}

bool StepRunner::must_begin_anew(const StepRequest& request) const {
  const Sequence& sequence = *request.sequence;
  const int64_t past = sequence.length();
  const int64_t end = past + static_cast<int64_t>(request.tokens.size());
  if (!switch_ || past == 0 || is_long(end) == is_long(sequence.reach())) return false;
  check(std::ssize(sequence.tokens()) == past, ErrorKind::invalid_argument,
        "a sequence of {} rows came with {} tokens: all are needed to run them again past {}", past,
        sequence.tokens().size(), switch_->most_short);
  return true;
}

std::unique_ptr<StepRunner> make_step_runner(const Program& program, const DecoderInterface& names,
                                             const RunnerOptions& options) {
  if (!names.block_table.empty()) {
    // Without its blocks a program may run over pages that sequences share.
    if (const std::unique_ptr<Program> plain = unblock_caches(program, names)) {
      PackedProgram packed = pack_sequences(*plain, names);
      if (packed.program != nullptr) {
        return std::make_unique<PackedRunner>(std::move(packed), names, options);
      }
    }
    return std::make_unique<PagedRunner>(program, names, options);
  }
  PackedProgram packed = pack_sequences(program, names);
  if (packed.program != nullptr) {
    return std::make_unique<PackedRunner>(std::move(packed), names, options);
  }
  try {
    return std::make_unique<ItemRunner>(program, names, packed, options);
  } catch (Error& error) {
    error.note(fmt::format("and rows cannot be packed: {}", packed.offender));
    throw;
  }
}

Tensor join_rows(std::span<const Tensor> parts) {
  int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.dims()[0];
  Tensor all(ElementType::f32, {rows, parts.front().dims()[1]});
  auto* to = all.as<float>();
  for (const Tensor& part : parts) {
    check(part.dims()[1] == all.dims()[1], ErrorKind::invalid_model,
          "sequences of one step have {} and {} logits", all.dims()[1], part.dims()[1]);
    std::memcpy(to, part.data(), static_cast<size_t>(part.byte_size()));
    to += part.count();
  }
  return all;
}

Tensor integer_tensor(ElementType type, Dims dims, std::span<const int64_t> values) {
  Tensor tensor(type, std::move(dims));
  convert(type, tensor.data(), ElementType::i64, values.data(),
          static_cast<int64_t>(values.size()));
  return tensor;
}

}  // namespace lathe::llm

// SPDX-License-Identifier: MIT
#include "llm/model/encoder.h"

#include <algorithm>

#include "base/error.h"
#include "llm/model/step_runner.h"
#include "targets/compile.h"

namespace lathe::llm {

Encoder::Encoder(std::unique_ptr<Program> program, const std::string& file,
                 std::vector<std::string> requested, const RunnerOptions& options)
    : requested_(std::move(requested)) {
  for (const auto& parameter : program->main().parameters()) {
    const Type& type = parameter->type();
    const bool ranked = type.is_ranked() && type.rank() > 0;
    const int64_t own = ranked ? type.dims->front().constant().value_or(1) : 1;
    batch_ = inputs_.empty() || own == batch_ ? own : 1;
    inputs_.push_back(parameter->name());
  }
  for (const std::string& name : requested_) {
    const auto& results = program->main().result_names();
    const bool known = std::ranges::find(results, name) != results.end() ||
                       std::ranges::find(inputs_, name) != inputs_.end();
    check(known, ErrorKind::invalid_model, "'{}' has no output '{}', which the decoder requires",
          escape(file), escape(name));
  }
  CompileOptions compile_options;
  compile_options.target = options.target;
  compile_options.compute = options.compute;
  compile_options.watch_kernels = options.watch_kernels;
  plan_ = compile_by(options, std::move(program), compile_options);
  SessionOptions session_options;
  session_options.pool = options.pool;
  session_ = std::make_unique<Session>(plan_, session_options);
}

const Type& Encoder::input_type(std::string_view name) const {
  const auto at = std::ranges::find(inputs_, name) - inputs_.begin();
  return plan_->program->main().parameters().at(static_cast<size_t>(at))->type();
}

std::vector<Tensor> Encoder::run(const NamedTensors& given, const CancelToken* cancel) const {
  for (const auto& [name, tensor] : given) {
    check(std::ranges::find(inputs_, name) != inputs_.end(), ErrorKind::invalid_argument,
          "the encoder has no input '{}', its inputs are: {}", escape(name),
          escape(fmt::format("{}", fmt::join(inputs_, ", "))));
  }
  std::vector<Box> inputs;
  for (const auto& parameter : plan_->program->main().parameters()) {
    const auto at = given.find(parameter->name());
    check(at != given.end(), ErrorKind::invalid_argument,
          "the encoder's input '{}', {}, is missing", escape(parameter->name()),
          parameter->type().to_string());
    const bool repeated = batch_ > 1 && at->second.rank() > 0 && at->second.dims()[0] == 1;
    const std::vector<Tensor> copies(static_cast<size_t>(batch_), at->second);
    inputs.emplace_back(repeated ? join_along(copies, 0) : at->second);
  }
  RunOptions options;
  options.cancel = cancel;
  const std::vector<Box> results = session_->run(inputs, options);
  const auto& names = plan_->program->main().result_names();
  std::vector<Tensor> tensors;
  for (const std::string& name : requested_) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) {
      tensors.push_back(given.at(name));
      continue;
    }
    const Tensor& result = results[static_cast<size_t>(at - names.begin())].tensor();
    const bool repeated = batch_ > 1 && result.rank() > 0 && result.dims()[0] == batch_;
    tensors.push_back(repeated ? slice_along(result, 0, 0, 1) : result);
  }
  return tensors;
}

}  // namespace lathe::llm

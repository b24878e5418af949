// SPDX-License-Identifier: MIT
#include "llm/model/embedder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "llm/model/step_runner.h"
#include "passes/analysis/token_axis.h"
#include "passes/decoder/recognise_attention.h"
#include "targets/compile.h"

namespace lathe::llm {
namespace {

// Why tokens of several sequences cannot share a run. Packing requires proof that each output token
// depends on its own input alone; programs that insert features do not pass.
std::string not_packed_reason_of(const Module& main, const Value& ids,
                                 std::span<const size_t> results) {
  const TokenAxes flow = trace_tokens(main, {{&ids, 1}});
  if (flow.blocking != nullptr) return describe(*flow.blocking, flow.reason);
  for (const size_t result : results) {
    const auto axis = flow.axes.find(main.results()[result]);
    if (axis == flow.axes.end() || axis->second != 1) {
      return fmt::format("'{}' has no token axis", escape(main.result_names()[result]));
    }
  }
  return {};
}

// Repeats the first token of [1, tokens, …] `count` times.
Tensor repeat_token(const Tensor& all, int64_t count) {
  Dims dims = all.dims();
  dims[0] = 1;
  dims[1] = count;
  Tensor repeated(all.type(), dims);
  const int64_t bytes = count == 0 ? 0 : repeated.byte_size() / count;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(repeated.as<std::byte>() + i * bytes, all.data(), static_cast<size_t>(bytes));
  }
  return repeated;
}

}  // namespace

Embedder::Embedder(std::unique_ptr<Program> program, const ProgramConfig& config,
                   const DecoderConfig& decoder, const DecoderInterface& names,
                   const RunnerOptions& options)
    : ids_(name_of(config.inputs, "input_ids", "input_ids")) {
  const Module& main = program->main();
  const Value* ids = nullptr;
  for (const auto& parameter : main.parameters()) {
    const Type& type = parameter->type();
    const bool known = type.is_ranked() && type.rank() > 0;
    if (parameter->name() == ids_) {
      check(known && type.rank() == 2, ErrorKind::unsupported,
            "input '{}' is {}, expected [batch, tokens]", escape(ids_), type.to_string());
      ids = parameter.get();
      continue;
    }
    const bool feature =
        std::ranges::any_of(std::to_array<std::string_view>({"image_features", "audio_features"}),
                            [&](std::string_view noun) {
                              return name_of(config.inputs, noun, noun) == parameter->name();
                            });
    check(feature && known, ErrorKind::unsupported, "the input '{}' is {}: its purpose is unknown",
          escape(parameter->name()), type.to_string());
  }
  check(ids != nullptr, ErrorKind::invalid_model, "the program has no input '{}'", escape(ids_));
  std::vector<size_t> results;
  const auto add = [&](std::string_view noun) {
    const std::string input = name_of(decoder.inputs, noun, noun);
    if (input != names.embeddings && std::ranges::count(names.token_inputs, input) == 0) return;
    const std::string name = name_of(config.outputs, noun, noun);
    const auto at = std::ranges::find(main.result_names(), name);
    check(at != main.result_names().end(), ErrorKind::invalid_model,
          "the program has no output '{}', which the decoder requires", escape(name));
    const auto result = static_cast<size_t>(at - main.result_names().begin());
    const Instruction* definition = main.results()[result]->definition();
    results.push_back(result);
    outputs_.push_back({input, result, definition != nullptr && definition->literal() != nullptr});
  };
  add("inputs_embeds");
  add("per_layer_inputs");
  not_packed_reason_ = not_packed_reason_of(main, *ids, results);
  CompileOptions compile_options;
  compile_options.target = options.target;
  compile_options.compute = options.compute;
  compile_options.pool = options.pool;
  compile_options.passes = options.passes;
  plan_ = compile_by(options, std::move(program), compile_options);
  SessionOptions session_options;
  session_options.pool = options.pool;
  session_ = std::make_unique<Session>(plan_, session_options);
}

std::vector<Tensor> Embedder::run_tokens(std::span<const int64_t> tokens,
                                         const RunOptions& options) const {
  const auto count = std::ssize(tokens);
  std::vector<Box> inputs;
  for (const auto& parameter : plan_->program->main().parameters()) {
    const Type& type = parameter->type();
    if (parameter->name() == ids_) {
      inputs.emplace_back(integer_tensor(type.element, {1, count}, tokens));
      continue;
    }
    // No features: unknown dimensions are their count, 0.
    Dims dims;
    for (const Dim& dim : *type.dims) dims.push_back(dim.constant().value_or(0));
    inputs.emplace_back(Tensor(type.element, std::move(dims)));
  }
  const std::vector<Box> given = session_->run(inputs, options);
  std::vector<Tensor> embeddings;
  for (const Output& output : outputs_) {
    Tensor own = given[output.result].tensor().dense();
    const bool fits = own.rank() > 1 && own.dims()[0] > 0 && own.dims()[1] > 0;
    if (output.constant && fits) own = repeat_token(own, count);
    check(fits && own.dims()[0] == 1 && own.dims()[1] == count, ErrorKind::invalid_model,
          "'{}' of {} tokens is {}", escape(output.input), count,
          to_string(own.type(), own.dims()));
    embeddings.push_back(std::move(own));
  }
  return embeddings;
}

NamedTensors Embedder::run(std::span<const int64_t> tokens, std::span<const int64_t> ends,
                           const RunOptions& options) const {
  std::vector<std::vector<Tensor>> parts(outputs_.size());
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (not_packed_reason_.empty() && end != ends.back()) continue;
    const std::vector<Tensor> embeddings = run_tokens(
        tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), options);
    for (size_t i = 0; i < embeddings.size(); ++i) parts[i].push_back(embeddings[i]);
    begin = end;
  }
  NamedTensors inputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    inputs[outputs_[i].input] = parts[i].size() == 1 ? parts[i].front() : join_along(parts[i], 1);
  }
  return inputs;
}

}  // namespace lathe::llm

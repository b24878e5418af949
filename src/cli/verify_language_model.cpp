// SPDX-License-Identifier: MIT
#include "cli/verify_language_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/execution.h"
#include "cli/language_model.h"
#include "cli/random.h"
#include "runtime/kernel_check.h"
#include "runtime/profiler.h"

namespace lathe::cli {
namespace {

constexpr int64_t kPrompt = 16;
constexpr int kSteps = 4;

// Random values of the encoder's inputs, one item of each.
llm::NamedTensors encoder_inputs(const llm::Decoder& decoder) {
  constexpr int64_t kSize = 16;  // of symbolic dims
  llm::NamedTensors inputs;
  for (const std::string& name : decoder.model_inputs()) {
    const Type& type = decoder.model_input_type(name);
    check(type.is_ranked(), ErrorKind::unsupported,
          "the encoder input '{}' has no known rank, so verify does not make it", escape(name));
    Dims dims;
    for (const Dim& dim : *type.dims) {
      dims.push_back(dim.constant().value_or(dims.empty() ? 1 : kSize));
    }
    inputs.emplace(name, random_tensor(type.element, dims, 0, name));
  }
  return inputs;
}

// Runs the encoder, the prompt and the steps; each step continues with the most likely token.
void run_steps(const llm::Decoder& decoder) {
  const int64_t vocabulary = decoder.vocabulary();
  std::vector<llm::Token> tokens;
  const int64_t context = decoder.config().context_length;
  const int64_t most = context == 0 ? kPrompt : std::min(kPrompt, context - kSteps);
  for (int64_t i = 0; i < std::max<int64_t>(most, 1); ++i) {
    tokens.push_back(static_cast<llm::Token>((i * 7919 + 13) % std::max<int64_t>(vocabulary, 1)));
  }
  llm::Sequence sequence = decoder.new_sequence();
  const llm::NamedTensors inputs = encoder_inputs(decoder);
  if (!inputs.empty()) decoder.encode(sequence, inputs, &interrupts());
  for (int step = 0; step <= kSteps; ++step) {
    const llm::StepRequest request{&sequence, tokens};
    const Tensor logits = decoder.step({&request, 1}, &interrupts());
    const std::span<const float> row = logits.elements<float>();
    const bool finite = std::ranges::all_of(row, [](float x) { return std::isfinite(x); });
    check(finite, ErrorKind::invalid_model, "step {} has logits that are not finite", step);
    tokens = {static_cast<llm::Token>(std::ranges::max_element(row) - row.begin())};
  }
}

}  // namespace

Report verify_language_model(const std::string& path, double tolerance, const Options& options) {
  Report report;
  report.model = path;
  const FolderExecution how = execution_of_folder(LanguageModelArguments{.folder = path}, options);
  ThreadPool pool(how.threads);
  KernelCheck kernels(tolerance);
  CompileOptions watched;
  watched.target = how.target.target;
  kernels.watch(watched);
  llm::DecoderOptions decoder_options;
  decoder_options.target = how.target.target;
  decoder_options.encoder_target = how.target.encoder;
  decoder_options.compute = compute_option(options);
  decoder_options.quantize = quantize_option(options);
  decoder_options.pool = &pool;
  decoder_options.passes = pass_options(options);
  decoder_options.memory_limit = options.integer("memory-limit");
  decoder_options.watch_kernels = watched.watch_kernels;
  const llm::Decoder decoder(path, decoder_options);
  report.target = decoder.plan().target;
  report.cases = 1;
  StageReport stage;
  stage.name = fmt::format("{}, each kernel, {}prompt of {} tokens and {} steps", report.target,
                           decoder.model_inputs().empty() ? "" : "encoder, ", kPrompt, kSteps);
  Profiler launches;  // each by itself
  decoder.profile(&launches);
  run_steps(decoder);
  add_kernels(kernels.reports(), stage);
  report.checks.push_back(to_check(stage));
  return report;
}

}  // namespace lathe::cli

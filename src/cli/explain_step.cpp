// SPDX-License-Identifier: MIT
#include "cli/explain_step.h"

#include <algorithm>

#include "llm/model/decoder.h"

namespace lathe::cli {
namespace {

constexpr int64_t kPrompt = 128;  // tokens, at most half of the context
constexpr int kSteps = 6;

}  // namespace

ExplainedRun explain_step(const LanguageModel& model, const std::vector<LaunchRow>& rows) {
  const llm::Decoder& decoder = *model.decoder();
  const int64_t half = std::max<int64_t>(decoder.config().context_length / 2, 1);
  const int64_t count = std::min(kPrompt, half), steps = std::min<int64_t>(kSteps, half);
  const std::vector<llm::Token> prompt = arbitrary_tokens(count, decoder.vocabulary(), 0);
  llm::Sequence sequence = decoder.new_sequence();
  const auto step = [&](int64_t tokens) {
    const llm::StepRequest request{&sequence, std::span(prompt).first(static_cast<size_t>(tokens))};
    const Clock::time_point begin = Clock::now();
    decoder.step(std::span(&request, 1), &interrupts());
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };
  step(count);
  ExplainedRun best;
  Profiler profiler;
  decoder.profile(&profiler);
  for (int64_t i = 0; i < steps; ++i) {
    profiler.clear();
    const double ms = step(1);
    if (i == 0 || ms < best.ms) best = record_run(profiler, ms, rows);
  }
  decoder.profile(nullptr);
  best.inputs.push_back(fmt::format("1 token after {} to {}", count, count + steps - 1));
  CompileOptions options;
  options.target = model.target();
  measure_machine(best, model.threads(), rows, options);
  return best;
}

}  // namespace lathe::cli

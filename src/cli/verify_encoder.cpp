// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "cli/encoder.h"
#include "cli/execution.h"
#include "cli/verify_language_model.h"
#include "runtime/kernel_check.h"
#include "runtime/profiler.h"

namespace lathe::cli {
namespace {

// Tokens of the packed texts, and of the text alone.
constexpr std::array<int64_t, 4> kPacked{16, 1, 40, 7};
constexpr std::array<int64_t, 1> kAlone{5};

void run_texts(const llm::SentenceEncoder& encoder, std::span<const int64_t> lengths,
               const RunOptions& options) {
  std::vector<std::vector<uint32_t>> texts;
  int64_t token = 0;
  for (const int64_t length : lengths) {
    std::vector<uint32_t>& ids = texts.emplace_back();
    for (int64_t i = 0; i < std::min(length, encoder.max_tokens()); ++i, ++token) {
      const int64_t id = (token * 7919 + 13) % std::max<int64_t>(encoder.vocabulary(), 1);
      ids.push_back(static_cast<uint32_t>(id));
    }
  }
  const Tensor embeddings = encoder.encode_tokens(texts, options);
  check(std::ranges::all_of(embeddings.elements<float>(), [](float x) { return std::isfinite(x); }),
        ErrorKind::invalid_model, "embeddings of {} texts are not finite", texts.size());
}

}  // namespace

Report verify_encoder(const std::string& path, double tolerance, const Options& options) {
  ThreadPool pool(static_cast<int>(options.integer("threads")));
  llm::SentenceEncoderOptions how = encoder_options(options, pool);
  KernelCheck kernels(tolerance);
  CompileOptions watched;
  watched.target = how.runner.target;
  kernels.watch(watched);
  how.runner.watch_kernels = watched.watch_kernels;
  const llm::SentenceEncoder encoder(path, how);
  Profiler launches;  // each by itself
  RunOptions run;
  run.cancel = &interrupts();
  run.profiler = &launches;
  run_texts(encoder, kPacked, run);
  run_texts(encoder, kAlone, run);

  Report report;
  report.model = path;
  report.target = encoder.plan().target;
  report.cases = 2;
  StageReport stage;
  stage.name = fmt::format("{}, each kernel, {} packed texts of {} to {} tokens, then one of {}",
                           report.target, kPacked.size(), std::ranges::min(kPacked),
                           std::min(std::ranges::max(kPacked), encoder.max_tokens()), kAlone[0]);
  add_kernels(kernels.reports(), stage);
  report.checks.push_back(to_check(stage));
  return report;
}

}  // namespace lathe::cli

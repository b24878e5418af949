// SPDX-License-Identifier: MIT
#include "cli/explain_run.h"

#include <map>
#include <set>

#include "cli/limits.h"

namespace lathe::cli {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kWarmup = 2;
constexpr int kRuns = 5;

std::vector<Roof> measure_roofs(const std::vector<LaunchRow>& rows, const CompileOptions& options,
                                ThreadPool& pool) {
  std::set<std::string> names{"f32"};
  for (const LaunchRow& row : rows) {
    if (row.compute == "bf16" || row.compute == "int8") names.insert(row.compute);
  }
  std::vector<Roof> roofs;
  for (const std::string& name : names) {
    roofs.push_back({name, 2 * measure_products(options.target, name, pool)});
  }
  return roofs;
}

}  // namespace

ExplainedRun record_run(const Profiler& profiler, double ms, const std::vector<LaunchRow>& rows) {
  ExplainedRun run;
  run.ms = run.between_ms = ms;
  run.launch_ms.resize(rows.size());
  run.launch_calls.resize(rows.size());
  std::map<const Launch*, size_t> index;
  for (size_t i = 0; i < rows.size(); ++i) index.emplace(rows[i].launch, i);
  std::vector<size_t> open;  // events around the next one
  for (const Profiler::Event& event : profiler.events()) {
    const double elapsed = Milliseconds(event.end - event.begin).count();
    ExplainedRun::Event shown;
    const auto at = index.find(event.launch);
    if (at != index.end()) shown.launch = at->second;
    shown.name = describe(*event.launch);
    shown.start_ms = Milliseconds(event.begin - profiler.events().front().begin).count();
    shown.ms = elapsed;
    shown.depth = event.depth;
    open.resize(static_cast<size_t>(event.depth));
    if (open.empty()) {
      run.between_ms -= elapsed;
    } else if (const auto around = run.events[open.back()].launch; around) {
      run.launch_ms[*around] -= elapsed;
    }
    if (shown.launch) {
      run.launch_ms[*shown.launch] += elapsed;
      ++run.launch_calls[*shown.launch];
    }
    open.push_back(run.events.size());
    run.events.push_back(std::move(shown));
  }
  run.sizes = ValueSizes(profiler);
  return run;
}

void measure_machine(ExplainedRun& run, int threads, const std::vector<LaunchRow>& rows,
                     const CompileOptions& options) {
  run.threads = threads;
  ThreadPool pool(threads);
  run.roofs = measure_roofs(rows, options, pool);
  std::set<std::string> computes;
  for (const Roof& roof : run.roofs) computes.insert(roof.compute);
  constexpr int64_t kBytes = int64_t{192} << 20;  // more than the caches hold
  run.bytes_per_second = measure_bandwidth(options.target, computes, kBytes, pool);
}

ExplainedRun explain_run(Execution& execution, const std::vector<Box>& inputs,
                         const std::vector<LaunchRow>& rows, const CompileOptions& options) {
  Session& session = execution.session();
  RunOptions run_options = execution.run_options();
  std::vector<Box> results(execution.plan().program->main().results().size());
  const auto time_run = [&] {
    session.reset();
    const Clock::time_point begin = Clock::now();
    session.run(inputs, results, run_options);
    return Milliseconds(Clock::now() - begin).count();
  };
  for (int i = 0; i < kWarmup; ++i) time_run();
  ExplainedRun best;
  Profiler profiler;
  run_options.profiler = &profiler;
  for (int i = 0; i < kRuns; ++i) {
    profiler.clear();
    const double ms = time_run();
    if (i > 0 && ms >= best.ms) continue;
    best = record_run(profiler, ms, rows);
  }
  const auto& parameters = execution.plan().program->main().parameters();
  for (size_t i = 0; i < inputs.size(); ++i) {
    best.inputs.push_back(describe_input(*parameters[i], inputs[i]));
  }
  measure_machine(best, execution.threads(), rows, options);
  return best;
}

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// One measured run of a plan, and what the machine could do in its time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/execution.h"
#include "cli/explain_rows.h"
#include "cli/explain_work.h"

namespace lathe::cli {

// What products with constant weights reach with a compute type: "f32", "bf16", "int8".
struct Roof {
  std::string compute;
  double operations_per_second = 0;
};

struct ExplainedRun {
  struct Event {
    std::optional<size_t> launch;  // index of the row; none: a plan made for ranks or in a run
    std::string name;
    double start_ms = 0;
    double ms = 0;
    int depth = 0;
  };
  int threads = 0;
  std::vector<std::string> inputs;
  double ms = 0;          // of the run
  double between_ms = 0;  // part of it outside of launches
  std::vector<Event> events;
  std::vector<double> launch_ms;  // per row, without the launches inside its bodies
  std::vector<int64_t> launch_calls;
  ValueSizes sizes;
  double bytes_per_second = 0;  // of all threads reading memory
  std::vector<Roof> roofs;
};

// A run that took `ms`, whose launches are events of the profiler.
ExplainedRun record_run(const Profiler& profiler, double ms, const std::vector<LaunchRow>& rows);

// Sets threads, bandwidth and roofs.
void measure_machine(ExplainedRun& run, int threads, const std::vector<LaunchRow>& rows,
                     const CompileOptions& options);

// Runs warm-up runs, then some with their launches timed, and returns the fastest of those. The
// rows are those of the execution's plan.
ExplainedRun explain_run(Execution& execution, const std::vector<Box>& inputs,
                         const std::vector<LaunchRow>& rows, const CompileOptions& options);

}  // namespace lathe::cli

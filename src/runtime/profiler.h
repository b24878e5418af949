// SPDX-License-Identifier: MIT
// Launch times, for `perf` and chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "runtime/run_context.h"

namespace lathe {

// Collects one event per launch of a run. Concurrent runs require separate profilers.
class Profiler {
 public:
  struct Event {
    const Launch* launch = nullptr;
    Clock::time_point begin;
    Clock::time_point end;
    int depth = 0;  // nesting in bodies
  };

  void clear() { events_.clear(); }
  const std::vector<Event>& events() const { return events_; }
  // JSON array of events in the trace event format; times in microseconds.
  std::string chrome_trace() const;

 private:
  friend class ProfileScope;
  std::vector<Event> events_;
  int depth_ = 0;
};

// The op and its node: "matmul 'layer2/MatMul'".
std::string describe(const Launch& launch);

// Times one launch. With a profiler the host waits for its end.
class ProfileScope {
 public:
  ProfileScope(RunContext& run_context, const Launch& launch);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  RunContext& run_context_;
  size_t event_ = 0;
};

}  // namespace lathe

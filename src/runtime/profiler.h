// SPDX-License-Identifier: MIT
// Times of launches, for `perf` and for chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "runtime/run_context.h"

namespace lathe {

// Collects one event per launch while a run has it. Not shared between runs in progress.
class Profiler {
 public:
  struct Event {
    const Launch* launch = nullptr;
    Clock::time_point begin;
    Clock::time_point end;
    int depth = 0;  // launches inside bodies lie within their loop's event
  };

  void clear() { events_.clear(); }
  const std::vector<Event>& events() const { return events_; }
  // The events as a JSON array in the trace event format; times in microseconds.
  std::string chrome_trace() const;

 private:
  friend class ProfileScope;
  std::vector<Event> events_;
  int depth_ = 0;
};

// "matmul 'layer2/MatMul'": the op and the node it came from.
std::string describe(const Launch& launch);

// Times one launch; with a profiler the host waits for it.
class ProfileScope {
 public:
  ProfileScope(Environment& environment, const Launch& launch);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Environment& environment_;
  size_t event_ = 0;
};

}  // namespace lathe

// SPDX-License-Identifier: MIT
// Launch times, for `perf` and chrome://tracing.
#pragma once

#include <string>
#include <vector>

#include "runtime/run_context.h"

namespace lathe {

class Frame;

// Collects one event per launch of a run. Concurrent runs require separate profilers.
class Profiler {
 public:
  // A tensor that the launch read or wrote.
  struct Shape {
    ElementType type = ElementType::f32;
    std::vector<int64_t> dims;
    bool is_constant = false;
  };
  struct Event {
    const Launch* launch = nullptr;
    Clock::time_point begin;
    Clock::time_point end;
    int depth = 0;                // nesting in bodies
    std::vector<Shape> operands;  // those that are tensors
    std::vector<Shape> results;
  };

  void clear() { events_.clear(); }
  const std::vector<Event>& events() const { return events_; }
  // JSON array of events in the trace event format; times in microseconds. `args` has the nodes of
  // the model's file with their operators, the kernel, and the tensors with their shapes.
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
  ProfileScope(Frame& frame, const Launch& launch);
  ~ProfileScope();
  // Ends the time of a launch that succeeded, and notes its tensors.
  void finish();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Frame& frame_;
  size_t event_ = 0;
};

}  // namespace lathe

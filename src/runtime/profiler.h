// SPDX-License-Identifier: MIT
// Launch times, for `perf` and chrome://tracing.
#pragma once

#include <array>
#include <span>
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
    bool is_constant = false;
    int rank = 0;
    std::array<int64_t, kMaxRank> sizes{};

    std::span<const int64_t> dims() const { return {sizes.data(), static_cast<size_t>(rank)}; }
  };
  struct Event {
    const Launch* launch = nullptr;
    Clock::time_point begin;
    Clock::time_point end;
    int depth = 0;      // nesting in bodies
    size_t shapes = 0;  // the first of its tensors
    int operands = 0;   // that are tensors
    int results = 0;
  };

  // Keeps its memory: a launch is noted without an allocation once an earlier run had as many.
  void clear() {
    events_.clear();
    shapes_.clear();
  }
  std::span<const Shape> operands(const Event& event) const {
    return std::span(shapes_).subspan(event.shapes, static_cast<size_t>(event.operands));
  }
  std::span<const Shape> results(const Event& event) const {
    const size_t first = event.shapes + static_cast<size_t>(event.operands);
    return std::span(shapes_).subspan(first, static_cast<size_t>(event.results));
  }
  const std::vector<Event>& events() const { return events_; }
  // JSON array of events in the trace event format; times in microseconds. `args` has the nodes of
  // the model's file with their operators, the kernel, and the tensors with their shapes.
  std::string chrome_trace() const;

 private:
  friend class ProfileScope;
  int add_shapes(Frame& frame, const std::vector<SlotId>& slots);
  std::vector<Event> events_;
  std::vector<Shape> shapes_;
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

// SPDX-License-Identifier: MIT
#include "runtime/profiler.h"

#include <nlohmann/json.hpp>

#include "ir/print.h"

namespace lathe {

std::string describe(const Launch& launch) {
  if (launch.instruction == nullptr) return "copy";
  std::string text = op_text(*launch.instruction);
  for (const Origin& origin : launch.instruction->origins()) {
    return text + fmt::format(" '{}'", escape(origin.node.empty() ? origin.op_type : origin.node));
  }
  return text;
}

std::string Profiler::chrome_trace() const {
  nlohmann::json trace = nlohmann::json::array();
  const auto micros = [&](Clock::time_point time) {
    return std::chrono::duration<double, std::micro>(time - events_.front().begin).count();
  };
  for (const Event& event : events_) {
    trace.push_back(
        {{"name", describe(*event.launch)},
         {"cat",
          event.launch->instruction == nullptr ? "copy" : op_text(*event.launch->instruction)},
         {"ph", "X"},
         {"ts", micros(event.begin)},
         {"dur", micros(event.end) - micros(event.begin)},
         {"pid", 1},
         {"tid", event.depth}});
  }
  return trace.dump();
}

ProfileScope::ProfileScope(RunContext& run_context, const Launch& launch)
    : run_context_(run_context) {
  Profiler* profiler = run_context.profiler;
  if (profiler == nullptr) return;
  event_ = profiler->events_.size();
  profiler->events_.push_back({&launch, Clock::now(), {}, profiler->depth_++});
}

ProfileScope::~ProfileScope() {
  Profiler* profiler = run_context_.profiler;
  if (profiler == nullptr) return;
  profiler->events_[event_].end = Clock::now();
  --profiler->depth_;
}

}  // namespace lathe

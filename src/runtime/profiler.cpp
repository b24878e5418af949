// SPDX-License-Identifier: MIT
#include "runtime/profiler.h"

#include <nlohmann/json.hpp>

#include "ir/print.h"
#include "runtime/frame.h"

namespace lathe {
namespace {

nlohmann::json to_json(const std::vector<Profiler::Shape>& shapes) {
  nlohmann::json list = nlohmann::json::array();
  for (const Profiler::Shape& shape : shapes) {
    list.push_back({{"type", to_string(shape.type)},
                    {"dims", shape.dims},
                    {"bytes", bytes_for(shape.type, element_count(shape.dims))},
                    {"constant", shape.is_constant}});
  }
  return list;
}

nlohmann::json arguments_of(const Profiler::Event& event) {
  nlohmann::json nodes = nlohmann::json::array();
  if (event.launch->instruction != nullptr) {
    for (const Origin& origin : event.launch->instruction->origins()) {
      nodes.push_back({{"name", origin.node}, {"op_type", origin.op_type}});
    }
  }
  nlohmann::json arguments = {{"nodes", std::move(nodes)},
                              {"operands", to_json(event.operands)},
                              {"results", to_json(event.results)}};
  if (event.launch->kernel != nullptr) arguments["kernel"] = event.launch->kernel->name();
  return arguments;
}

std::vector<Profiler::Shape> shapes_of(Frame& frame, const std::vector<SlotId>& slots) {
  std::vector<Profiler::Shape> shapes;
  for (const SlotId id : slots) {
    if (id < 0) continue;
    const Slot& slot = frame.slot(id);
    if (slot.kind == SlotKind::box && !frame.box(id).is_tensor()) continue;
    const TensorView view =
        slot.kind == SlotKind::box ? frame.box(id).tensor().view() : frame.view(id);
    const auto dims = view.extents();
    shapes.push_back({view.type, {dims.begin(), dims.end()}, slot.kind == SlotKind::literal});
  }
  return shapes;
}

}  // namespace

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
         {"tid", event.depth},
         {"args", arguments_of(event)}});
  }
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ProfileScope::ProfileScope(Frame& frame, const Launch& launch) : frame_(frame) {
  Profiler* profiler = frame.run_context().profiler;
  if (profiler == nullptr) return;
  event_ = profiler->events_.size();
  profiler->events_.push_back({&launch, Clock::now(), {}, profiler->depth_++, {}, {}});
}

ProfileScope::~ProfileScope() {
  Profiler* profiler = frame_.run_context().profiler;
  if (profiler == nullptr) return;
  --profiler->depth_;
  Profiler::Event& event = profiler->events_[event_];
  if (event.end == Clock::time_point{}) event.end = Clock::now();
}

void ProfileScope::finish() {
  Profiler* profiler = frame_.run_context().profiler;
  if (profiler == nullptr) return;
  Profiler::Event& event = profiler->events_[event_];
  event.end = Clock::now();
  event.operands = shapes_of(frame_, event.launch->operands);
  event.results = shapes_of(frame_, event.launch->results);
}

}  // namespace lathe

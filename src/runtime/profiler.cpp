// SPDX-License-Identifier: MIT
#include "runtime/profiler.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/print.h"
#include "runtime/frame.h"

namespace lathe {
namespace {

nlohmann::json to_json(std::span<const Profiler::Shape> shapes) {
  nlohmann::json list = nlohmann::json::array();
  for (const Profiler::Shape& shape : shapes) {
    list.push_back({{"type", to_string(shape.type)},
                    {"dims", Dims(shape.dims().begin(), shape.dims().end())},
                    {"bytes", bytes_for(shape.type, element_count(shape.dims()))},
                    {"constant", shape.is_constant}});
  }
  return list;
}

nlohmann::json arguments_of(const Profiler& profiler, const Profiler::Event& event) {
  nlohmann::json nodes = nlohmann::json::array();
  if (event.launch->instruction != nullptr) {
    for (const Origin& origin : event.launch->instruction->origins()) {
      nodes.push_back({{"name", origin.node}, {"op_type", origin.op_type}});
    }
  }
  nlohmann::json arguments = {{"nodes", std::move(nodes)},
                              {"operands", to_json(profiler.operands(event))},
                              {"results", to_json(profiler.results(event))}};
  if (event.launch->kernel != nullptr) arguments["kernel"] = event.launch->kernel->name();
  return arguments;
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
         {"args", arguments_of(*this, event)}});
  }
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int Profiler::add_shapes(Frame& frame, const std::vector<SlotId>& slots) {
  const size_t before = shapes_.size();
  for (const SlotId id : slots) {
    if (id < 0) continue;
    const Slot& slot = frame.slot(id);
    if (slot.kind == SlotKind::box && !frame.box(id).is_tensor()) continue;
    const TensorView view =
        slot.kind == SlotKind::box ? frame.box(id).tensor().view() : frame.view(id);
    Shape& shape = shapes_.emplace_back();
    shape.type = view.type;
    shape.is_constant = slot.kind == SlotKind::literal;
    shape.rank = view.rank;
    std::copy_n(view.dims.begin(), view.rank, shape.sizes.begin());
  }
  return static_cast<int>(shapes_.size() - before);
}

ProfileScope::ProfileScope(Frame& frame, const Launch& launch) : frame_(frame) {
  Profiler* profiler = frame.run_context().profiler;
  if (profiler == nullptr) return;
  event_ = profiler->events_.size();
  profiler->events_.push_back({&launch, Clock::now(), {}, profiler->depth_++});
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
  event.shapes = profiler->shapes_.size();
  event.operands = profiler->add_shapes(frame_, event.launch->operands);
  event.results = profiler->add_shapes(frame_, event.launch->results);
}

}  // namespace lathe

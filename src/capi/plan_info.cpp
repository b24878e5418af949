// SPDX-License-Identifier: MIT
// Plans described: their target, their launches and why each kernel was chosen.
#include <nlohmann/json.hpp>

#include "capi/devices.h"
#include "passes/set_compute_type.h"
#include "runtime/profiler.h"

namespace lathe::capi {
namespace {

using Record = nlohmann::ordered_json;

Record json_of(const Launch& launch) {
  const bool is_view = launch.kind == LaunchKind::view;
  const bool has_kernel = launch.kernel != nullptr && !is_view;
  Record out{
      {"name", describe(launch)},
      {"op", launch.instruction == nullptr ? "copy" : std::string(launch.instruction->op().name)},
      {"kernel", is_view      ? "view"
                 : has_kernel ? std::string(launch.kernel->name())
                              : "executor"},
      {"detail", has_kernel ? launch.kernel->detail() : ""},
      {"reason", is_view ? "" : launch.reason},
      {"device", launch.on_stream}};
  const std::string compute(launch.instruction == nullptr ? std::string_view()
                                                          : compute_of(*launch.instruction));
  if (!compute.empty()) out["compute"] = compute;
  return out;
}

lathe_error* explain(const lathe_plan* plan, lathe_text_sink sink, void* context) {
  return guarded([&] {
    const Plan& source = *demand(plan, "plan").plan;
    check(sink != nullptr, ErrorKind::invalid_argument, "argument '{}' is NULL", "sink");
    Record launches = Record::array();
    for (const ModulePlan& module : source.modules) {
      for (const Launch& launch : module.launches) launches.push_back(json_of(launch));
    }
    const Record all{{"model", source.program->name},
                     {"target", source.target},
                     {"launches", std::move(launches)}};
    const std::string text = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    sink(context, text.data(), text.size());
  });
}

lathe_error* get_info(const lathe_plan* plan, lathe_plan_info* info) {
  return guarded([&] {
    const Plan& source = *demand(plan, "plan").plan;
    lathe_plan_info out = known(&demand(info, "info"));
    out.size = info->size;
    out.target = source.target.c_str();
    out.device = device_of(source.device);
    out.has_states = source.stateless() ? 0 : 1;
    out.launch_count = 0;
    out.literal_bytes = 0;
    for (const ModulePlan& module : source.modules) out.launch_count += module.launches.size();
    for (const Tensor& literal : source.literals) {
      if (literal.type() != ElementType::string) out.literal_bytes += literal.byte_size();
    }
    std::memcpy(info, &out, std::min(info->size, sizeof out));
  });
}

}  // namespace

void add_plan_info(lathe_api& api) {
  api.plan_explain = explain;
  api.plan_info = get_info;
}

}  // namespace lathe::capi

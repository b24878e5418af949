// SPDX-License-Identifier: MIT
#include "cli/explain_json.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/os_system.h"
#include "cli/explain_refusals.h"
#include "ir/compiled_source.h"
#include "ir/ops.h"
#include "ir/print.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::ordered_json;

Json count_json(const std::optional<int64_t>& count) { return count ? Json(*count) : Json(); }

Json row_json(const LaunchRow& row) {
  Json json{{"name", row.name},
            {"op", row.op},
            {"kernel", row.kernel},
            {"detail", row.detail},
            {"reason", row.reason}};
  if (!row.compute.empty()) json["compute"] = row.compute;
  if (!row.refusal.empty()) json["compute_refusal"] = row.refusal;
  return json;
}

// How launches depend on each other, on inputs and on outputs.
class Graph {
 public:
  explicit Graph(const std::vector<LaunchRow>& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].launch->instruction != nullptr) at_.emplace(rows[i].launch->instruction, i);
    }
  }

  void describe(const LaunchRow& row, Json& json) const {
    const ModulePlan& module = *row.module;
    std::set<size_t> after;
    Json reads = Json::array();
    for (const Value* operand : operands_of(row)) {
      if (operand == nullptr) continue;
      if (operand->definition() == nullptr) reads.push_back(operand->name());
      const auto found = at_.find(operand->definition());
      if (found != at_.end()) after.insert(found->second);
    }
    Json writes = Json::array();
    for (size_t i = 0; i < module.results.size(); ++i) {
      if (std::ranges::count(row.launch->results, module.results[i]) > 0) {
        writes.push_back(module.module->result_names()[i]);
      }
    }
    json["module"] = module.module->name();
    json["after"] = after;
    json["reads"] = std::move(reads);
    json["writes"] = std::move(writes);
    if (row.launch->instruction == nullptr) return;
    const Instruction& instruction = *row.launch->instruction;
    if (!instruction.results().empty()) {
      json["result"] = instruction.result()->type().to_string();
    }
    if (instruction.op() != ops::region) return;
    for (const auto& step : instruction.bodies()[0]->instructions()) {
      if (step->literal() == nullptr)
        json["steps"].push_back(print(*step, {.inline_bytes = 64, .origins = false}));
    }
  }

 private:
  // A copy to an output has no instruction, but a slot with the value that it copies.
  static std::vector<const Value*> operands_of(const LaunchRow& row) {
    std::vector<const Value*> operands;
    if (row.launch->instruction != nullptr) {
      const auto& own = row.launch->instruction->operands();
      operands.assign(own.begin(), own.end());
      return operands;
    }
    for (const SlotId slot : row.launch->operands) {
      if (slot >= 0) operands.push_back(row.module->slots[static_cast<size_t>(slot)].value);
    }
    return operands;
  }

  std::map<const Instruction*, size_t> at_;
};

Json run_json(const ExplainedRun& run) {
  Json json{{"threads", run.threads},
            {"inputs", run.inputs},
            {"ms", run.ms},
            {"between_ms", run.between_ms},
            {"bytes_per_second", run.bytes_per_second}};
  for (const Roof& roof : run.roofs) {
    json["roofs"].push_back(
        {{"compute", roof.compute}, {"operations_per_second", roof.operations_per_second}});
  }
  json["events"] = Json::array();
  for (const ExplainedRun::Event& event : run.events) {
    Json shown{{"launch", event.launch ? Json(*event.launch) : Json()},
               {"start_ms", event.start_ms},
               {"ms", event.ms},
               {"depth", event.depth}};
    if (!event.launch) shown["name"] = event.name;
    json["events"].push_back(std::move(shown));
  }
  return json;
}

Json launches_json(const std::vector<LaunchRow>& rows, const ExplainedRun* run) {
  const Graph graph(rows);
  const ValueSizes sizes = run == nullptr ? ValueSizes() : run->sizes;
  Json list = Json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Launch& launch = *rows[i].launch;
    Json json = row_json(rows[i]);
    json["work"] = to_string(work_kind(launch));
    graph.describe(rows[i], json);
    json["bytes"] = count_json(launch_bytes(launch, sizes));
    json["operations"] = count_json(launch_operations(launch, sizes));
    if (run != nullptr) {
      json["calls"] = run->launch_calls[i];
      json["ms"] = run->launch_ms[i];
    }
    list.push_back(std::move(json));
  }
  return list;
}

// Bytes over symbols without a value are null, with the expression beside them.
Json refusals_json(const std::vector<Refusal>& refusals) {
  Json list = Json::array();
  for (const Refusal& refusal : refusals) {
    Json shown{{"kind", to_string(refusal.kind)}, {"launch", refusal.launch}};
    if (refusal.reader) shown["reader"] = *refusal.reader;
    const std::optional<int64_t> bytes = refusal.bytes ? refusal.bytes->constant() : std::nullopt;
    shown["bytes"] = count_json(bytes);
    if (refusal.bytes && !bytes) shown["symbolic_bytes"] = refusal.bytes->to_string();
    shown["reason"] = refusal.reason;
    list.push_back(std::move(shown));
  }
  return list;
}

}  // namespace

Json measured_choices(const Plan& plan) {
  const CompiledSource* file = compiled_source(*plan.program);
  if (file == nullptr || file->tuned().empty()) return nullptr;
  return Json::parse(file->tuned()).value("choices", Json());
}

Json explanation_json(const Explanation& explanation) {
  const ExplainedRun* run = explanation.run ? &*explanation.run : nullptr;
  Json json{{"model", explanation.plan->program->name},
            {"target", explanation.plan->target},
            {"processor", system_info().processor}};
  if (!explanation.notes.empty()) json["notes"] = explanation.notes;
  json["launches"] = launches_json(explanation.rows, run);
  if (!explanation.prompt_rows.empty()) {
    json["prompt_launches"] = launches_json(explanation.prompt_rows, nullptr);
  }
  const ValueSizes sizes = run == nullptr ? ValueSizes() : run->sizes;
  json["refusals"] = refusals_json(refusals_of(*explanation.plan, explanation.rows, sizes));
  if (!explanation.prompt_rows.empty()) {
    json["prompt_refusals"] =
        refusals_json(refusals_of(*explanation.plan, explanation.prompt_rows, {}));
  }
  if (Json choices = measured_choices(*explanation.plan); !choices.empty()) {
    json["choices"] = std::move(choices);
  }
  if (run != nullptr) json["run"] = run_json(*run);
  return json;
}

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/execution.h"
#include "runtime/profiler.h"

namespace lathe::cli {
namespace {

struct Row {
  std::string name;  // of the instruction
  std::string op;
  std::string kernel;  // "cpu.matmul", "ref.add", "view"
  std::string detail;
  std::string reason;  // why it is not the target's own
};

std::string kernel_of(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return "view";
  return launch.kernel == nullptr ? "executor" : std::string(launch.kernel->name());
}

std::vector<Row> rows_of(const Plan& plan) {
  std::vector<Row> rows;
  for (const ModulePlan& module : plan.modules) {
    for (const Launch& launch : module.launches) {
      Row row;
      row.name = describe(launch);
      row.op = launch.instruction == nullptr ? "copy" : std::string(launch.instruction->op().name);
      row.kernel = kernel_of(launch);
      if (launch.kind != LaunchKind::view) {
        if (launch.kernel != nullptr) row.detail = launch.kernel->detail();
        row.reason = launch.reason;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string remark(const Row& row) {
  if (!row.reason.empty()) return "because " + row.reason;
  return row.detail;
}

void print_groups(Output& out, const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, int64_t> groups;
  for (const Row& row : rows) ++groups[{row.kernel, remark(row)}];
  for (const auto& [key, count] : groups) {
    out.write(fmt::format("  {:>5}  {:<28} {}\n", count, key.first, escape(key.second)));
  }
}

std::string json_text(const Plan& plan, const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    list.push_back({{"name", row.name},
                    {"op", row.op},
                    {"kernel", row.kernel},
                    {"detail", row.detail},
                    {"reason", row.reason}});
  }
  const nlohmann::ordered_json json{
      {"model", plan.program->name}, {"target", plan.target}, {"launches", std::move(list)}};
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

int explain(CommandLine& line) {
  ProgramArguments model;
  bool json = false;
  bool all = false;
  model.declare(line);
  line.flag("--all", all, "Lists every instruction, not only how many go where.");
  line.flag("--json", json, "Prints one JSON object: target, launches with kernel and reason.");
  line.options({"target", "timeout"});
  if (!line.parse()) return 0;

  std::unique_ptr<Program> program = model.load();
  const auto plan = compile(std::move(program), compile_options(line.options()));
  const std::vector<Row> rows = rows_of(*plan);
  if (json) {
    line.out().write(json_text(*plan, rows));
    return 0;
  }
  line.out().write(
      fmt::format("{} on {}: {} launches\n", escape(model.model), plan->target, rows.size()));
  if (!all) print_groups(line.out(), rows);
  for (const Row& row : rows) {
    if (!all) break;
    line.out().write(
        fmt::format("  {:<40} {:<28} {}\n", row.name, row.kernel, escape(remark(row))));
  }
  return 0;
}

}  // namespace lathe::cli

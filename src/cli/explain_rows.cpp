// SPDX-License-Identifier: MIT
#include "cli/explain_rows.h"

#include "ir/print.h"
#include "runtime/profiler.h"

namespace lathe::cli {
namespace {

std::string kernel_of(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return "view";
  return launch.kernel == nullptr ? "executor" : std::string(launch.kernel->name());
}

}  // namespace

std::vector<LaunchRow> launch_rows(const Plan& plan, Compute compute) {
  std::vector<LaunchRow> rows;
  for (const ModulePlan& module : plan.modules) {
    for (const Launch& launch : module.launches) {
      LaunchRow row;
      row.launch = &launch;
      row.module = &module;
      row.name = describe(launch);
      row.op = launch.instruction == nullptr ? "copy" : op_text(*launch.instruction);
      row.kernel = kernel_of(launch);
      if (launch.instruction != nullptr) {
        row.compute = compute_of(*launch.instruction);
        if (!row.compute.empty()) row.refusal = compute_refusal(*launch.instruction, compute);
      }
      if (launch.kind != LaunchKind::view) {
        if (launch.kernel != nullptr) row.detail = launch.kernel->detail();
        row.reason = launch.reason;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// What `explain` shows of each launch of a plan.
#pragma once

#include <string>
#include <vector>

#include "passes/set_compute_type.h"
#include "plan/plan.h"

namespace lathe::cli {

struct LaunchRow {
  const Launch* launch = nullptr;
  const ModulePlan* module = nullptr;  // that it is part of
  std::string name;                    // of the instruction
  std::string op;
  std::string kernel;  // "cpu.matmul", "ref.add", "view"
  std::string detail;
  std::string reason;   // why the target has no kernel for it
  std::string compute;  // compute type of a GEMM with constant weights
  std::string refusal;  // why it is not the requested one
};

// The launches of all modules, main first.
std::vector<LaunchRow> launch_rows(const Plan& plan, Compute compute);

}  // namespace lathe::cli

// SPDX-License-Identifier: MIT
// What `explain` shows of each launch of a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/explain_work.h"
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

// Work that a launch has because something was refused.
struct Refusal {
  enum class Kind : uint8_t { kernel, compute, fusion };
  Kind kind = Kind::kernel;
  size_t launch = 0;             // index of the row
  std::optional<size_t> reader;  // fusion: the launch that reads its result
  std::string reason;
  // What it reads and writes; fusion: the value between both, written and read. Nullopt: it depends
  // on dims without a value.
  std::optional<int64_t> bytes;
};
std::string_view to_string(Refusal::Kind kind);

// Launches on another target or with another compute type than requested, and pairs of adjacent
// launches that are not one kernel; those with the most bytes first.
std::vector<Refusal> refusals_of(const Plan& plan, const std::vector<LaunchRow>& rows,
                                 const ValueSizes& sizes);

}  // namespace lathe::cli
